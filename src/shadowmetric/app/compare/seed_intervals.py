"""The mean of what seeds say, with its 95 % interval by Student's t: wide for three seeds, and that is the truth.

    interval = mean ± t · s / sqrt(n),    s² = sum (value - mean)² / (n - 1)

where t is the quantile of n - 1 degrees of freedom. For whole degrees the share of Student's distribution between -t
and t is a finite sum (Abramowitz and Stegun, 26.7.3 and 26.7.4), of which t is found by halving.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
HALVINGS = 60  # of a right angle: beyond the digits of a float


class Difference(NamedTuple):
    """The mean of what seeds say, with its interval; the interval is None for fewer than two."""

    mean: float
    low: float | None
    high: float | None
    seeds: int

    @property
    def sign(self) -> int:
        """Return 1 or -1 if the interval lies on one side of 0, else 0."""
        if self.low is None or self.high is None:
            return 0
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


def interval(values: Sequence[float]) -> Difference:
    """Return the mean with Student's 95 % interval; `seed_tests` corrects several for their number."""
    return interval_at(values, LEVEL)


def interval_at(values: Sequence[float], level: float) -> Difference:
    """Return the mean with Student's interval at a level."""
    mean, count = float(np.mean(values)), len(values)
    if count < 2:
        return Difference(mean, None, None, count)
    half = float(student_quantile(level, count - 1) * np.std(values, ddof=1) / math.sqrt(count))
    return Difference(mean, mean - half, mean + half, count)


def student_quantile(level: float, degrees: int) -> float:
    """Return the t between whose two signs lies a share `level` of Student's distribution."""
    low, high = 0.0, math.pi / 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if share_within(middle, degrees) < level else (low, middle)
    return math.sqrt(degrees) * math.tan((low + high) / 2)


def share_within(angle: float, degrees: int) -> float:
    """Return the share between -t and t, where t = sqrt(degrees) · tan(angle)."""
    odd = degrees % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for power in range(odd, degrees - 1, 2):
        total += term
        term *= (power + 1) / (power + 2) * math.cos(angle) ** 2
    return 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total
