"""Soft-margin triplet loss (Hermans et al.): the hinge made smooth, without a margin.

    loss = mean over triplets of log(1 + exp(d(a, p) - d(a, n)))          d: Euclidean distance

It never stops pulling, so it goes with batch-hard mining. A margin inside the exponential is a
variant that the paper's "margin 0.2 for all losses" can only mean; it is 0 by default.
"""

import math
from typing import Unpack

import torch
from torch import Tensor

from shadowmetric.losses.distances import distance
from shadowmetric.losses.mined import MinedLoss, MinedSettings
from shadowmetric.losses.slopes import Slopes, distance_and_slope, softplus_and_slope


class SoftMarginTripletLoss(MinedLoss):
    """Soft-margin triplet loss of a batch. margin, if any, is in distance.

    A miner given by name that needs a margin (semi_hard) takes this one, or 0.2 where it is 0.
    """

    unit = "distance"
    slopes = Slopes(distance_and_slope, softplus_and_slope)

    def __init__(self, *, margin: float = 0.0, **settings: Unpack[MinedSettings]):
        if not isinstance(margin, int | float) or math.isnan(margin) or margin < 0:
            raise ValueError(f"margin is {margin!r}; it must be a number, 0 or above.")
        settings.setdefault("miner", "batch_hard")
        super().__init__(margin or 0.2, **settings)
        self.margin = float(margin)

    def measure(self, dots: Tensor, square: Tensor, other_square: Tensor) -> Tensor:
        """Return the distance."""
        return distance(dots, square, other_square)

    def hinge(self, closer: Tensor, farther: Tensor) -> Tensor:
        """Return log(1 + exp(closer - farther + margin))."""
        return torch.nn.functional.softplus(closer - farther + self.margin)
