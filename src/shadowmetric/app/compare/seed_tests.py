"""What seeds decide: a difference beside many others (Holm), and equality within a bound (two one-sided tests).

    p_value(x)       = P(|T| >= |t|),    t = (mean - value) / (s / sqrt(n)),  T Student's with n - 1 degrees of freedom

    holm             of p_1 <= ... <= p_m the k-th becomes the largest of min(1, (m - j + 1) p_j) over j <= k
    holm_intervals   the k-th smallest p gets Student's interval at 1 - 0.05 / (m - k + 1); from the first that holds 0
                     on, all have the level of that one. An interval excludes 0 where Holm's p is below 0.05, so that
                     of all statements "this is above 0" or "below 0" none is mistaken, with 95 % probability.
    equivalence      p = max(P(T >= (mean + bound) / se), P(T <= (mean - bound) / se)); below 0.05 just where the 90 %
                     interval lies within -bound to bound (Schuirmann's test). "Not different" is no evidence of "the
                     same"; this is.

Seeds that all say the same have no spread: p is 1 where they say the value itself, else 0.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shadowmetric.app.compare.seed_intervals import LEVEL, Difference, interval_at, share_within


class Equivalence(NamedTuple):
    """Whether a difference lies within a bound: p, and the interval that decides it; None for fewer than two seeds."""

    p: float | None
    low: float | None
    high: float | None
    bound: float

    @property
    def holds(self) -> bool:
        """Return whether the two are the same within the bound."""
        return self.p is not None and self.p < 1 - LEVEL


def p_value(values: Sequence[float], value: float = 0.0) -> float | None:
    """Return the two-sided p of the mean being the value; None for fewer than two seeds."""
    if len(values) < 2:
        return None
    above = tail(values, value)
    return 2 * min(above, 1 - above)


def tail(values: Sequence[float], value: float) -> float:
    """Return P(T >= t) of the values' mean against a value: small where the mean is far above it."""
    difference, error = float(np.mean(values)) - value, standard_error(values)
    if error == 0:
        return 0.5 if difference == 0 else float(difference < 0)
    degrees = len(values) - 1
    inside = share_within(math.atan(abs(difference / error) / math.sqrt(degrees)), degrees)
    return (1 - inside) / 2 if difference >= 0 else (1 + inside) / 2


def standard_error(values: Sequence[float]) -> float:
    """Return that of the mean; differences that are the same number have none, whatever the rounding of their mean."""
    return 0.0 if len(set(values)) == 1 else float(np.std(values, ddof=1)) / math.sqrt(len(values))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p of each."""
    count, largest = len(p_values), 0.0
    adjusted = [0.0] * count
    for place, number in enumerate(sorted(range(count), key=lambda number: p_values[number])):
        largest = max(largest, min(1.0, (count - place) * p_values[number]))
        adjusted[number] = largest
    return adjusted


def holm_intervals(samples: Sequence[Sequence[float]], level: float = LEVEL) -> list[Difference]:
    """Return the interval of each sample, corrected for their number; those of fewer than two seeds do not count."""
    p_values = {number: p for number, p in enumerate(map(p_value, samples)) if p is not None}
    intervals = [interval_at(values, level) for values in samples]
    rejecting = True
    remaining = len(p_values)
    for number in sorted(p_values, key=lambda number: p_values[number]):
        intervals[number] = interval_at(samples[number], 1 - (1 - level) / remaining)
        rejecting = rejecting and intervals[number].sign != 0
        remaining -= rejecting
    return intervals


def equivalence(values: Sequence[float], bound: float, level: float = LEVEL) -> Equivalence:
    """Return whether the mean lies within -bound to bound, by two one-sided tests."""
    if not bound > 0:
        raise ValueError(f"bound is {bound!r}; it must be above 0.")
    if len(values) < 2:
        return Equivalence(None, None, None, bound)
    _, low, high, _ = interval_at(values, 2 * level - 1)
    p = max(tail(values, -bound), 1 - tail(values, bound))
    return Equivalence(p, low, high, bound)
