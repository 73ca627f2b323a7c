"""Soft-margin triplet loss (Hermans et al.): the hinge made smooth, without a margin.

    loss = mean over triplets of log(1 + exp(d(a, p) - d(a, n)))          d: Euclidean distance

It never stops pulling, so it goes with batch-hard mining. A margin inside the exponential is a
variant that the paper's "margin 0.2 for all losses" can only mean; it is 0 by default.
"""

import math
from collections.abc import Sequence
from typing import Unpack

from torch import Tensor
from torch.nn.functional import softplus

from shadowmetric.losses.distances import distance
from shadowmetric.losses.mined import MinedLoss, MinedSettings
from shadowmetric.losses.reductions import Reduction
from shadowmetric.losses.slopes import Slopes, distance_and_slope, softplus_and_slope
from shadowmetric.losses.triplet_list import loss_of_triplets
from shadowmetric.types import Embeddings, References, Scalar


def soft_margin_triplet_loss(
    embeddings: Embeddings,
    triplets: Sequence[Tensor],
    *,
    margin: float = 0.0,
    normalize: bool = True,
    reduction: Reduction = "mean",
    references: References | None = None,
) -> Scalar:
    """Return the soft-margin triplet loss of the triplets; zero, with a graph, if there are none."""
    check_soft_margin(margin)

    def hinge(closer: Tensor, farther: Tensor) -> Tensor:
        return softplus(closer - farther + margin)

    return loss_of_triplets(
        embeddings, triplets, distance, hinge, normalize=normalize, reduction=reduction, references=references
    )


def check_soft_margin(margin: float) -> float:
    """Return the margin, which may be 0."""
    if isinstance(margin, bool) or not isinstance(margin, int | float) or not 0 <= margin < math.inf:
        raise ValueError(f"margin is {margin!r}; it must be a finite number, 0 or above.")
    return float(margin)


class SoftMarginTripletLoss(MinedLoss):
    """Soft-margin triplet loss of a batch. margin, if any, is in distance.

    miner="semi_hard" takes for each positive the nearest negative beyond it, however far: this loss never lets go of a
    triplet, so the window has no upper end, whatever the margin.
    """

    unit = "distance"
    slopes = Slopes(distance_and_slope, softplus_and_slope)

    def __init__(self, *, margin: float = 0.0, **settings: Unpack[MinedSettings]):
        check_soft_margin(margin)
        settings.setdefault("miner", "batch_hard")
        super().__init__(margin or 1.0, **settings)
        self.margin = float(margin)

    @property
    def window(self) -> float:
        """Return infinity: no upper end."""
        return math.inf

    def measure(self, dots: Tensor, square: Tensor, other_square: Tensor) -> Tensor:
        """Return the distance."""
        return distance(dots, square, other_square)

    def hinge(self, closer: Tensor, farther: Tensor) -> Tensor:
        """Return log(1 + exp(closer - farther + margin))."""
        return softplus(closer - farther + self.margin)
