"""Angular triplet loss: the triplet loss on angles.

    loss = mean over triplets of max(angle(a, p) - angle(a, n) + margin, 0)          in radians

The paper compares with "Angular Triplet" and does not define it; this reading has an additive margin
of 0.2 as the paper says. Wang et al.'s angular loss is another one: `AngularLoss`.
An angle does not depend on the rows' lengths, so `normalize` changes nothing.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from shadowmetric.losses.distances import angle
from shadowmetric.losses.mined import MinedLoss
from shadowmetric.losses.reductions import Reduction
from shadowmetric.losses.slopes import Slopes, angle_and_slope, relu_and_slope
from shadowmetric.losses.triplet_list import hinge_at, loss_of_triplets
from shadowmetric.types import Embeddings, References, Scalar


def angular_triplet_loss(
    embeddings: Embeddings,
    triplets: Sequence[Tensor],
    *,
    margin: float = 0.2,
    normalize: bool = True,
    reduction: Reduction = "mean",
    references: References | None = None,
) -> Scalar:
    """Return the angular triplet loss of the triplets; zero, with a graph, if there are none."""
    hinge = hinge_at(margin)
    return loss_of_triplets(
        embeddings, triplets, angle, hinge, normalize=normalize, reduction=reduction, references=references
    )


class AngularTripletLoss(MinedLoss):
    """Angular triplet loss of a batch. margin is in radians."""

    unit = "angle"
    slopes = Slopes(angle_and_slope, relu_and_slope)

    def measure(self, dots: Tensor, square: Tensor, other_square: Tensor) -> Tensor:
        """Return the angle."""
        return angle(dots, square, other_square)

    def hinge(self, closer: Tensor, farther: Tensor) -> Tensor:
        """Return max(closer - farther + margin, 0)."""
        return torch.relu(closer - farther + self.margin)
