"""Angular triplet loss: the triplet loss on angles.

    loss = mean over triplets of max(angle(a, p) - angle(a, n) + margin, 0)          in radians

The paper compares with "Angular Triplet" and does not define it; this reading has an additive margin
of 0.2 as the paper says. Wang et al.'s angular loss is another one: `AngularLoss`.
An angle does not depend on the rows' lengths, so `normalize` changes nothing.
"""

import torch
from torch import Tensor

from shadowmetric.losses.distances import angle
from shadowmetric.losses.mined import MinedLoss
from shadowmetric.losses.slopes import Slopes, angle_and_slope, relu_and_slope


class AngularTripletLoss(MinedLoss):
    """Angular triplet loss of a batch. margin is in radians."""

    unit = "radians"
    slopes = Slopes(angle_and_slope, relu_and_slope)

    def measure(self, dots: Tensor, square: Tensor, other_square: Tensor) -> Tensor:
        """Return the angle."""
        return angle(dots, square, other_square)

    def hinge(self, closer: Tensor, farther: Tensor) -> Tensor:
        """Return max(closer - farther + margin, 0)."""
        return torch.relu(closer - farther + self.margin)
