"""Losses of the catalogue beside pytorch-metric-learning's, and what that library's take.

`python -m benchmarks losses --contender sup_con pml:sup_con` measures both. Where a loss there means the same, the
tests hold ours to it; `THEIRS` says with which settings, and `OURS` which of ours those are. What is not here, that
library has not.

    bytes     pairs     about 50 for each of the S×S pairs: similarities, masks and their gradients
              smooth    about 60 for each of S×S×S: the differences of all similarities of a row
              quartic   about 5 for each positive pair and each negative one
              bins      about 24 for each pair and bin
              centers   about 40 for each of the S×C similarities
"""

from collections.abc import Callable
from math import radians
from typing import Any

import torch
from torch import Tensor, nn

from shadowmetric.losses.catalogue import LOSSES, build_loss

MARGIN = 0.2
PREFIX = "pml:"

THEIRS: dict[str, Callable[[Any, int, int], nn.Module]] = {  # (pytorch_metric_learning.losses, classes, dim)
    "contrastive": lambda losses, classes, dim: losses.ContrastiveLoss(),
    "multi_similarity": lambda losses, classes, dim: losses.MultiSimilarityLoss(),
    "lifted_structure": lambda losses, classes, dim: losses.LiftedStructureLoss(),
    "sup_con": lambda losses, classes, dim: losses.SupConLoss(),
    "info_nce": lambda losses, classes, dim: losses.NTXentLoss(),
    "circle": lambda losses, classes, dim: losses.CircleLoss(),
    "smooth_ap": lambda losses, classes, dim: losses.SmoothAPLoss(),
    "fast_ap": lambda losses, classes, dim: losses.FastAPLoss(),
    "histogram": lambda losses, classes, dim: losses.HistogramLoss(),
    "proxy_anchor": lambda losses, classes, dim: losses.ProxyAnchorLoss(classes, dim),
    "proxy_nca": lambda losses, classes, dim: losses.ProxyNCALoss(classes, dim, softmax_scale=9),
    "cos_face": lambda losses, classes, dim: losses.CosFaceLoss(classes, dim),
    "arc_face": lambda losses, classes, dim: losses.ArcFaceLoss(classes, dim),
    "sub_center_arc_face": lambda losses, classes, dim: losses.SubCenterArcFaceLoss(
        num_classes=classes, embedding_size=dim
    ),
}
OURS: dict[str, dict[str, Any]] = {
    "contrastive": {"squared": False, "reduction": "mean_nonzero"},
    "multi_similarity": {"epsilon": None},
    "arc_face": {"margin": radians(28.6)},
    "sub_center_arc_face": {"margin": radians(28.6)},
}
CUBIC = ("smooth_ap",)
OF_PAIRS_TIMES_NEGATIVES = ("info_nce", "lifted_structure")
BINS = {"fast_ap": 10, "histogram": 101}
OF_CENTERS = ("proxy_anchor", "proxy_nca", "cos_face", "arc_face", "sub_center_arc_face")
BYTES = {"pairs": 50, "cubic": 60, "quartic": 5, "bins": 24, "centers": 40}


def is_known(name: str) -> bool:
    """Return whether a contender is a loss of the catalogue, or that loss of the peer."""
    return name in LOSSES or name.removeprefix(PREFIX) in THEIRS


def peer_bytes(name: str, batch: int, classes: int) -> int:
    """Return roughly what the peer's loss of a name takes."""
    if name in CUBIC:
        return BYTES["cubic"] * batch**3
    if name in OF_PAIRS_TIMES_NEGATIVES:
        per_class = -(-batch // classes)
        return BYTES["quartic"] * batch**2 * (per_class - 1) * (batch - per_class)
    if name in BINS:
        return BYTES["bins"] * BINS[name] * batch**2
    return BYTES["centers"] * batch * classes if name in OF_CENTERS else BYTES["pairs"] * batch**2


def make_loss(name: str, classes: int, dim: int) -> nn.Module:
    """Return a loss by its name, ours or the peer's."""
    torch.manual_seed(0)
    if name.startswith(PREFIX):
        from pytorch_metric_learning import losses

        return THEIRS[name.removeprefix(PREFIX)](losses, classes, dim)
    return build_loss(name, margin=MARGIN, miner="semi_hard", classes=classes, dim=dim)


def prepare_loss(name: str) -> Callable[[Tensor, Tensor], Callable[[], Tensor]]:
    """Return what makes the forward pass of a loss by its name, ours or the peer's."""

    def prepare(embeddings: Tensor, labels: Tensor) -> Callable[[], Tensor]:
        loss = make_loss(name, int(labels.max()) + 1, embeddings.shape[1])
        return lambda: loss(embeddings, labels)

    return prepare
