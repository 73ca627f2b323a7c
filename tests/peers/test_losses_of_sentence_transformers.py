"""Every loss of sentence-transformers beside the setting of ours that is it, value and gradient, or no setting.

The losses get rows instead of sentences, and ours go through `SentenceLoss`, whose model hands rows on. With a real
text model, trained, they are in tests/integrations/test_sentence_transformers.py.
"""

import inspect
from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

import pytest
import torch
from peer_batches import BATCHES, rows_around_classes
from torch import Tensor, nn

import shadowmetric as sm

pytest.importorskip("sentence_transformers", reason="the peer sentence-transformers is not installed")

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.losses import (
    BatchHardTripletLossDistanceFunction,
    TripletDistanceMetric,
)

from shadowmetric.integrations.sentence_transformers import SentenceLoss


class HandsOn(nn.Module):
    """The one module of a model whose sentences are rows already."""

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"sentence_embedding": features["rows"]}


class Pair(NamedTuple):
    """A loss of theirs, the same of ours, and on which batches the two part."""

    theirs: Callable[[], Any]
    ours: nn.Module
    part: tuple[str, ...] = ()


ALONE = ("some alone", "all alone", "one row")
NO_NEGATIVE = ("one class", *ALONE)
FREE = {"squared": False, "normalize": False}
BEYOND = sm.SemiHardMiner(inf, fallback="farthest", normalize=False)
HARDEST = sm.BatchHardMiner(normalize=False)
COSINE = BatchHardTripletLossDistanceFunction.cosine_distance

OF_LABELS: dict[str, list[Pair]] = {
    "BatchSemiHardTripletLoss": [
        Pair(lambda: losses.BatchSemiHardTripletLoss(None), sm.TripletLoss(5.0, miner=BEYOND, **FREE), ("one class",)),
        Pair(
            lambda: losses.BatchSemiHardTripletLoss(None, COSINE, 0.2),
            sm.ShadowLoss(0.2, miner=sm.SemiHardMiner(inf, fallback="farthest")),
            ("one class",),
        ),
    ],
    "BatchHardTripletLoss": [
        Pair(lambda: losses.BatchHardTripletLoss(None), sm.TripletLoss(5.0, miner=HARDEST, **FREE), NO_NEGATIVE)
    ],
    "BatchHardSoftMarginTripletLoss": [
        Pair(
            lambda: losses.BatchHardSoftMarginTripletLoss(None),
            sm.SoftMarginTripletLoss(miner=HARDEST, normalize=False),
            NO_NEGATIVE,
        )
    ],
    "BatchAllTripletLoss": [
        Pair(
            lambda: losses.BatchAllTripletLoss(None),
            sm.TripletLoss(5.0, miner="all", reduction="mean_nonzero", **FREE),
        )
    ],
}
OF_COLUMNS: dict[str, list[Pair]] = {
    "TripletLoss": [
        Pair(lambda: losses.TripletLoss(None), sm.TripletLoss(5.0, **FREE)),
        Pair(lambda: losses.TripletLoss(None, TripletDistanceMetric.COSINE, 0.9), sm.ShadowLoss(0.9)),
    ],
    "MultipleNegativesRankingLoss": [
        Pair(lambda: losses.MultipleNegativesRankingLoss(None), sm.NPairLoss(temperature=0.05)),
    ],
    "MultipleNegativesSymmetricRankingLoss": [
        Pair(
            lambda: losses.MultipleNegativesSymmetricRankingLoss(None), sm.TwoTowerLoss(sm.NPairLoss(temperature=0.05))
        )
    ],
}
BY_MICRO_BATCH = {  # the same numbers as a loss above, embedded in parts: SentenceLoss(..., micro_batch)
    "CachedMultipleNegativesRankingLoss",
    "CachedMultipleNegativesSymmetricRankingLoss",
}
AROUND = {"AdaptiveLayerLoss", "MatryoshkaLoss", "Matryoshka2dLoss"}  # take a loss: tests/integrations
NOT_HERE = {  # no setting of ours is said to be these
    "AnglELoss",
    "CachedGISTEmbedLoss",
    "CoSENTLoss",
    "ContrastiveLoss",
    "ContrastiveTensionLoss",
    "CosineSimilarityLoss",
    "DenoisingAutoEncoderLoss",
    "DistillKLDivLoss",
    "EmbedDistillLoss",
    "GISTEmbedLoss",
    "GlobalOrthogonalRegularizationLoss",
    "MSELoss",
    "MarginMSELoss",
    "MegaBatchMarginLoss",
    "OnlineContrastiveLoss",
    "SoftmaxLoss",
}


def cases(table: dict[str, list[Pair]]) -> list[Any]:
    return [
        pytest.param(pair, id=f"{name}-{number}") for name, pairs in table.items() for number, pair in enumerate(pairs)
    ]


def value_and_gradients(loss: Callable[[list[Tensor]], Tensor], columns: list[Tensor]) -> list[Tensor]:
    columns = [column.clone().requires_grad_() for column in columns]
    value = loss(columns)
    return [value.detach(), *torch.autograd.grad(value, columns)]


def both(pair: Pair, columns: list[Tensor], labels: Tensor | None) -> tuple[list[Tensor], list[Tensor]]:
    """Return value and gradients of ours, and of theirs."""
    sentences = SentenceLoss(SentenceTransformer(modules=[HandsOn()], device="cpu"), pair.ours)
    ours = value_and_gradients(lambda rows: sentences([{"rows": one} for one in rows], labels), columns)
    return ours, value_and_gradients(lambda rows: pair.theirs().compute_loss_from_embeddings(rows, labels), columns)


def assert_same(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for mine, yours in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, yours, rtol=1e-6, atol=1e-8)


def test_every_loss_of_theirs_is_here_or_said_not_to_be():
    theirs = {name for name, kind in vars(losses).items() if inspect.isclass(kind) and name.endswith("Loss")}
    assert set(OF_LABELS) | set(OF_COLUMNS) | BY_MICRO_BATCH | AROUND | NOT_HERE == theirs


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("pair", cases(OF_LABELS))
def test_value_and_gradient_of_labeled_rows(pair, batch):
    """A row that lacks a positive or a negative is left alone here, and counts in some of theirs."""
    rows, labels = BATCHES[batch]
    ours, theirs = both(pair, [rows], labels)
    if batch in pair.part:
        assert abs(theirs[0] - ours[0]) > 0.1
    else:
        assert_same(ours, theirs)


@pytest.mark.filterwarnings("ignore:The MultipleNegativesSymmetricRankingLoss is deprecated")
@pytest.mark.parametrize("length", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("pair", cases(OF_COLUMNS))
def test_value_and_gradient_of_columns(pair, length):
    columns = [rows_around_classes(list(range(8)), seed, length=length)[0] for seed in range(3)]
    assert_same(*both(pair, columns if isinstance(pair.ours, sm.TripletLoss | sm.ShadowLoss) else columns[:2], None))
