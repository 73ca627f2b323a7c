"""What thresholds accept, read from two histograms: of the cosines of genuine pairs, and of impostors.

A threshold is the number of the lowest bin that it accepts. Only bins that hold a pair need be looked at, and one
beyond the last, which accepts nothing. Shares are compared as whole numbers of any size, so that equal ones are equal.

Memory: a few numbers for each bin.
"""

from bisect import bisect_left
from typing import NamedTuple

import torch
from torch import Tensor


def roc_auc(genuine: Tensor, impostor: Tensor) -> float:
    """Return P(genuine > impostor) + P(same bin) / 2."""
    below = (impostor.cumsum(0) - impostor).double()
    return _share_of_combinations(genuine, impostor, below + impostor.double() / 2)


def tied_share(genuine: Tensor, impostor: Tensor) -> float:
    """Return P(same bin)."""
    return _share_of_combinations(genuine, impostor, impostor.double())


def _share_of_combinations(genuine: Tensor, impostor: Tensor, impostors: Tensor) -> float:
    """Return the share of all (genuine, impostor), if a genuine pair in a bin meets so many impostors there."""
    return torch.dot(genuine.double(), impostors).item() / int(genuine.sum()) / int(impostor.sum())


class Point(NamedTuple):
    """A share, and the threshold that has it."""

    share: float
    bin_number: int


class AcceptCurve:
    """How many pairs each threshold accepts. Both kinds of pairs must occur."""

    def __init__(self, genuine: Tensor, impostor: Tensor):
        self.bins = (genuine + impostor).nonzero()[:, 0]
        self.genuine, self.impostor = (_at_or_above(counts[self.bins]) for counts in (genuine, impostor))
        self.pairs, self.impostors = int(self.genuine[0]), int(self.impostor[0])

    def at_rate(self, rate: float) -> Point:
        """Return the largest true accept rate whose false accept rate is at most `rate`."""
        lowest = bisect_left(range(len(self.impostor)), True, key=lambda k: self._false_accepts(k) <= rate)
        if int(self.genuine[lowest]) == 0:
            return Point(0.0, int(self.bins[-1]) + 1)
        return Point(int(self.genuine[lowest]) / self.pairs, int(self.bins[lowest]))

    def equal_error(self) -> Point:
        """Return (FAR + FRR) / 2 where |FAR - FRR| is least: FAR - FRR only falls, so that is next to 0."""
        crossing = bisect_left(range(len(self.bins)), True, key=lambda k: self._imbalance(k) <= 0)
        near = range(crossing - 1, min(crossing + 1, len(self.bins)))  # the lowest threshold is above 0
        index = min(near, key=lambda k: abs(self._imbalance(k)))
        false_rejects = (self.pairs - int(self.genuine[index])) / self.pairs
        return Point((self._false_accepts(index) + false_rejects) / 2, int(self.bins[index]))

    def _false_accepts(self, k: int) -> float:
        return int(self.impostor[k]) / self.impostors

    def _imbalance(self, k: int) -> int:
        """Return FAR - FRR, times both numbers of pairs."""
        return int(self.impostor[k]) * self.pairs - (self.pairs - int(self.genuine[k])) * self.impostors


def _at_or_above(counts: Tensor) -> Tensor:
    """Return for each bin how many lie in it or above, and 0 at the end."""
    return torch.cat([counts.flip(0).cumsum(0).flip(0), counts.new_zeros(1)])
