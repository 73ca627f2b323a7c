"""Every loss of pytorch-metric-learning beside the setting of ours that is it, value and gradient, or no setting.

The library's own classes compute one side. `docs/pytorch-metric-learning.md` promises in its table what is tested here.
"""

import inspect
from collections.abc import Callable
from math import radians
from typing import Any, NamedTuple

import pytest
import torch
from peer_batches import BATCHES, CLASSES, DIM
from torch import Tensor
from torch.nn.functional import normalize

import shadowmetric as sm

pytest.importorskip("pytorch_metric_learning", reason="the peer pytorch-metric-learning is not installed")

from pytorch_metric_learning import distances, losses, miners

Loss = Callable[..., Tensor]
ALL = {"miner": "all", "reduction": "mean_nonzero"}


class Pair(NamedTuple):
    """A loss of theirs, the same of ours, and whether both take references."""

    theirs: Callable[[], Loss]
    ours: Callable[[], Loss]
    references: bool = False


def mined(loss: Loss, miner: Callable[..., Any]) -> Loss:
    """Return a loss that is given what its library's miner names."""
    return lambda rows, labels: loss(rows, labels, miner(rows, labels))


def on_unit_rows(loss: Loss) -> Loss:
    return lambda rows, labels: loss(normalize(rows), labels)


def of_one_pair_a_class(loss: sm.TwoTowerLoss) -> Loss:
    """Return a loss of two towers, of the first two rows of each class that has two."""

    def of_batch(rows: Tensor, labels: Tensor) -> Tensor:
        places = [(labels == label).nonzero()[:2, 0].tolist() for label in labels.unique().tolist()]
        pairs = torch.tensor([place for place in places if len(place) == 2])
        return loss(rows[pairs[:, 0]], rows[pairs[:, 1]], labels[pairs[:, 0]]) if len(pairs) else 0 * rows.sum()

    return of_batch


def with_their_centers(theirs: Any, ours: Any, centers: Callable[[Any], Tensor]) -> Pair:
    """Return the pair, once ours has the centers of theirs."""
    theirs, ours = theirs.double(), ours.double()
    ours.centers.data = centers(theirs).data.clone()
    return Pair(lambda: theirs, lambda: ours)


def weights(loss: Any) -> Tensor:
    return loss.W.T


def soft_triple(classes: int = CLASSES, **settings: Any) -> sm.SoftTripleLoss:
    return sm.SoftTripleLoss(classes, DIM, tau=0.0, **settings)


torch.manual_seed(0)
SAME: dict[str, list[Pair]] = {
    "TripletMarginLoss": [
        Pair(lambda: losses.TripletMarginLoss(0.2), lambda: sm.TripletLoss(0.2, squared=False, **ALL), True),
        Pair(
            lambda: losses.TripletMarginLoss(0.2, distance=distances.LpDistance(power=2)),
            lambda: sm.TripletLoss(0.2, **ALL),
            True,
        ),
        Pair(
            lambda: losses.TripletMarginLoss(0.2, distance=distances.CosineSimilarity()),
            lambda: sm.ShadowLoss(0.2, **ALL),
            True,
        ),
        Pair(
            lambda: losses.TripletMarginLoss(0.2, smooth_loss=True),
            lambda: sm.SoftMarginTripletLoss(margin=0.2, miner="all"),
            True,
        ),
        Pair(
            lambda: losses.TripletMarginLoss(2.0, distance=distances.LpDistance(normalize_embeddings=False)),
            lambda: sm.TripletLoss(2.0, squared=False, normalize=False, **ALL),
            True,
        ),
    ],
    "MultiSimilarityLoss": [
        Pair(losses.MultiSimilarityLoss, lambda: sm.MultiSimilarityLoss(epsilon=None), True),
        Pair(lambda: mined(losses.MultiSimilarityLoss(), miners.MultiSimilarityMiner(0.1)), sm.MultiSimilarityLoss),
    ],
    "ContrastiveLoss": [
        Pair(losses.ContrastiveLoss, lambda: sm.ContrastiveLoss(squared=False, reduction="mean_nonzero"), True)
    ],
    "LiftedStructureLoss": [Pair(losses.LiftedStructureLoss, sm.LiftedStructureLoss)],
    "NTXentLoss": [Pair(lambda: losses.NTXentLoss(0.1), lambda: sm.NPairLoss(temperature=0.1), True)],
    "NPairsLoss": [
        Pair(losses.NPairsLoss, lambda: of_one_pair_a_class(sm.TwoTowerLoss(sm.NPairLoss(), both_ways=False))),
        Pair(
            lambda: losses.NPairsLoss(distance=distances.DotProductSimilarity(normalize_embeddings=False)),
            lambda: of_one_pair_a_class(sm.TwoTowerLoss(sm.NPairLoss(normalize=False), both_ways=False)),
        ),
    ],
    "AngularLoss": [Pair(lambda: on_unit_rows(losses.AngularLoss(40)), lambda: sm.AngularLoss(40.0))],
    "SoftTripleLoss": [with_their_centers(losses.SoftTripleLoss(CLASSES, DIM), soft_triple(), lambda loss: loss.fc.T)],
    "ArcFaceLoss": [
        with_their_centers(
            losses.ArcFaceLoss(CLASSES, DIM), sm.ArcFaceLoss(CLASSES, DIM, margin=radians(28.6)), weights
        )
    ],
    "CosFaceLoss": [
        with_their_centers(
            losses.CosFaceLoss(CLASSES, DIM),
            soft_triple(centers_per_class=1, scale=64.0, margin=0.35),
            weights,
        )
    ],
    "NormalizedSoftmaxLoss": [
        with_their_centers(
            losses.NormalizedSoftmaxLoss(CLASSES, DIM),
            soft_triple(centers_per_class=1, scale=20.0, margin=0.0),
            weights,
        )
    ],
}
ANOTHER_NUMBER = {"RankedListLoss"}  # something is added to each weight, and weights are differentiated: see below
NOT_HERE = {  # no setting of ours is said to be these
    "CircleLoss",
    "DynamicSoftMarginLoss",
    "FastAPLoss",
    "GeneralizedLiftedStructureLoss",
    "HistogramLoss",
    "InstanceLoss",
    "IntraPairVarianceLoss",
    "LargeMarginSoftmaxLoss",
    "ManifoldLoss",
    "MarginLoss",
    "NCALoss",
    "P2SGradLoss",
    "PNPLoss",
    "ProxyAnchorLoss",
    "ProxyNCALoss",
    "SignalToNoiseRatioContrastiveLoss",
    "SmoothAPLoss",
    "SphereFaceLoss",
    "SubCenterArcFaceLoss",
    "SupConLoss",
    "TupletMarginLoss",
    "VICRegLoss",
}
AROUND = {"SelfSupervisedLoss", "ThresholdConsistentMarginLoss", "GenericPairLoss"}  # take a loss, or are one's base


def pairs_of(*, references: bool) -> list[Any]:
    """Return all pairs, or those that take references."""
    return [
        pytest.param(pair, id=f"{name}-{number}")
        for name, pairs in SAME.items()
        for number, pair in enumerate(pairs)
        if pair.references or not references
    ]


def value_and_gradient(loss: Loss, rows: Tensor, *given: Any, **named: Any) -> tuple[Tensor, Tensor]:
    rows = rows.clone().requires_grad_()
    value = loss(rows, *given, **named)
    return value.detach(), torch.autograd.grad(value, rows)[0]


def assert_same(first: tuple[Tensor, ...], second: tuple[Tensor, ...]) -> None:
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


def test_every_loss_of_theirs_is_here_or_said_not_to_be():
    theirs = {name for name, kind in vars(losses).items() if inspect.isclass(kind) and name.endswith("Loss")}
    assert set(SAME) | set(ANOTHER_NUMBER) | NOT_HERE | AROUND == theirs
    assert len(SAME) + len(ANOTHER_NUMBER) + len(NOT_HERE) + len(AROUND) == len(theirs)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("pair", pairs_of(references=False))
def test_value_and_gradient(pair, batch):
    rows, labels = BATCHES[batch]
    found = value_and_gradient(pair.ours(), rows, labels)
    assert_same(found, value_and_gradient(pair.theirs(), rows, labels))


@pytest.mark.parametrize("pair", pairs_of(references=True))
@pytest.mark.parametrize("names", [("ragged", "even"), ("some alone", "long rows"), ("all alone", "one class")])
def test_value_and_gradient_against_references(pair, names):
    (rows, labels), (references, others) = (BATCHES[name] for name in names)
    theirs = value_and_gradient(pair.theirs(), rows, labels, ref_emb=references, ref_labels=others)
    ours = value_and_gradient(pair.ours(), rows, labels, references=references, reference_labels=others)
    assert_same(ours, theirs)


# Where they part, and by what


def test_multi_similarity_with_an_epsilon_leaves_out_rows_that_lack_a_positive_or_a_negative():
    for batch in ("some alone", "one class", "all alone"):
        rows, labels = BATCHES[batch]
        theirs = losses.MultiSimilarityLoss()(rows, labels)
        assert sm.MultiSimilarityLoss(epsilon=4.0)(rows, labels) < theirs - 1e-3
        torch.testing.assert_close(sm.MultiSimilarityLoss(epsilon=None)(rows, labels), theirs)
    rows, labels = BATCHES["one class"]
    assert sm.MultiSimilarityLoss()(rows, labels) == 0


def test_n_pairs_normalizes_rows_by_default():
    rows, labels = BATCHES["even"]
    for length in (1.0, 10.0):
        pairs = of_one_pair_a_class(sm.TwoTowerLoss(sm.NPairLoss(), both_ways=False))
        torch.testing.assert_close(pairs(length * rows, labels), losses.NPairsLoss()(length * rows, labels))
    assert sm.NPairLoss(normalize=False)(10 * rows, labels) > 10 * losses.NPairsLoss()(10 * rows, labels)


def test_angular_does_not_normalize_negatives_there():
    rows, labels = BATCHES["long rows"]
    assert losses.AngularLoss(40)(rows, labels) > 2 * sm.AngularLoss(40.0)(rows, labels)


def test_lifted_structure_counts_a_pair_as_often_as_triplets_name_it_there_and_once_here():
    rows, labels = BATCHES["even"]
    triplets = sm.AllMiner()(rows, labels)
    once = losses.LiftedStructureLoss()(rows, labels)
    torch.testing.assert_close(sm.LiftedStructureLoss()(rows, labels, triplets), once)
    assert losses.LiftedStructureLoss()(rows, labels, triplets) > once + 1


def ranked_list_by_hand(rows: Tensor, labels: Tensor, temperature: float, *, constant: bool) -> Tensor:
    """The formula of losses/ranked_list.py on the whole matrix, its weights constant or differentiated."""
    unit = normalize(rows)
    same = labels[:, None] == labels
    apart = (unit[:, None] - unit[None]).square().sum(2)
    apart = torch.where(apart > 0, apart, 1.0).sqrt() * (apart > 0)
    far = same & ~torch.eye(len(rows), dtype=torch.bool) & (apart > 0.8)
    near = ~same & (apart < 1.2)
    pull = ((apart - 0.8) * far).sum(1) / far.sum(1).clamp_min(1)
    weight = torch.exp(temperature * (1.2 - apart)) * near
    weight = weight.detach() if constant else weight
    push = (weight * (1.2 - apart)).sum(1) / weight.sum(1).clamp_min(1e-30)
    return (0.5 * pull + 0.5 * push).mean()


@pytest.mark.filterwarnings("ignore:Values of Tp or Tn")
@pytest.mark.parametrize("temperature", [1.0, 10.0])
@pytest.mark.parametrize("batch", ["even", "ragged", "some alone"])
def test_ranked_list_differentiates_its_weights_there_and_not_here(batch, temperature):
    """PML adds 1e-5 to each of S weights before it divides by their sum: that much the values part."""
    rows, labels = BATCHES[batch]
    theirs = value_and_gradient(losses.RankedListLoss(0.4, Tn=temperature, alpha=1.2), rows, labels)
    ours = value_and_gradient(sm.RankedListLoss(temperature=temperature), rows, labels)
    differentiated, constant = (
        value_and_gradient(
            lambda rows, labels, constant=constant: ranked_list_by_hand(rows, labels, temperature, constant=constant),
            rows,
            labels,
        )
        for constant in (False, True)
    )
    assert_same(ours, constant)
    for mine, yours in zip(theirs, differentiated, strict=True):
        assert (mine - yours).norm() < 1e-3 * yours.norm()
    assert (theirs[1] - ours[1]).norm() > 0.005 * ours[1].norm()


@pytest.mark.filterwarnings("ignore:Values of Tp or Tn")
def test_ranked_list_with_weights_that_are_all_alike_has_one_gradient():
    rows, labels = BATCHES["even"]
    theirs = value_and_gradient(losses.RankedListLoss(0.4, Tn=0.0), rows, labels)
    ours = value_and_gradient(sm.RankedListLoss(temperature=0.0), rows, labels)
    for mine, yours in zip(theirs, ours, strict=True):
        assert (mine - yours).norm() < 1e-3 * yours.norm()
