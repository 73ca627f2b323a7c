"""Triplet loss (Schroff et al., FaceNet): the positive nearer than the negative, by a margin.

    loss = mean over triplets of max(d(a, p) - d(a, n) + margin, 0)

d is the squared distance, as in FaceNet and in the paper (eq. tl), or the distance itself. Distances
come from dot products and lengths, |a - x|^2 = |a|^2 + |x|^2 - 2 a.x, so that this loss is as
memory-linear as Shadow's.
"""

from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor

from shadowmetric.losses.distances import distance, squared_distance
from shadowmetric.losses.mined import MinedLoss, MinedSettings
from shadowmetric.losses.reductions import Reduction
from shadowmetric.losses.slopes import Slopes, distance_and_slope, relu_and_slope, squared_distance_and_slope
from shadowmetric.losses.triplet_list import hinge_at, loss_of_triplets
from shadowmetric.losses.triplet_margins import Margin
from shadowmetric.mining.comparison import Unit
from shadowmetric.types import Embeddings, References, Scalar


def triplet_loss(
    embeddings: Embeddings,
    triplets: Sequence[Tensor],
    *,
    margin: float = 0.2,
    squared: bool = True,
    normalize: bool = True,
    reduction: Reduction = "mean",
    references: References | None = None,
) -> Scalar:
    """Return the triplet loss of the triplets; zero, with a graph, if there are none."""
    measure, hinge = squared_distance if squared else distance, hinge_at(margin)
    return loss_of_triplets(
        embeddings, triplets, measure, hinge, normalize=normalize, reduction=reduction, references=references
    )


class TripletLoss(MinedLoss):
    """Triplet loss of a batch. margin is in squared distance, or in distance with squared=False."""

    def __init__(self, margin: Margin = 0.2, *, squared: bool = True, **settings: Unpack[MinedSettings]):
        self.squared = squared
        self.unit: Unit = "squared" if squared else "distance"  # which a miner by name is made with
        super().__init__(margin, **settings)
        self.slopes = Slopes(squared_distance_and_slope if squared else distance_and_slope, relu_and_slope)

    def measure(self, dots: Tensor, square: Tensor, other_square: Tensor) -> Tensor:
        """Return the squared distance, or the distance."""
        return (squared_distance if self.squared else distance)(dots, square, other_square)

    def hinge(self, closer: Tensor, farther: Tensor) -> Tensor:
        """Return max(closer - farther + margin, 0)."""
        return torch.relu(closer - farther + self.margin)
