"""What a margin means in the other units, on unit rows.

A margin is a difference of two measurements. Gap, cosine and squared distance differ by a factor, so
there a margin converts exactly and everywhere. Distance and angle are curved against them: the
same difference means more or less depending on where it lies, so those two are given for a pair
that starts at distance 0, which is where their relation is usually quoted.

    gap = 1 - cos = squared distance / 2 = 2 sin^2(angle / 2)
"""

import math
from typing import NamedTuple

from shadowmetric.checks import check_choice, check_margin

UNITS = ("gap", "cosine", "squared_distance", "distance", "angle")


class EquivalentMargins(NamedTuple):
    """One margin in five units. gap, cosine and squared_distance are exact; distance and angle hold from 0."""

    gap: float
    cosine: float
    squared_distance: float
    distance: float
    angle: float

    def __str__(self) -> str:
        exact = f"gap {self.gap:.6g} = cosine {self.cosine:.6g} = squared distance {self.squared_distance:.6g} (exact)"
        angle = f"angle {self.angle:.6g} rad ({math.degrees(self.angle):.4g} degrees)"
        return f"{exact}; from 0: distance {self.distance:.6g}, {angle}"


def equivalent_margins(margin: float, unit: str = "gap") -> EquivalentMargins:
    """Print and return what a margin in `unit` is in every unit, on unit rows.

    A Shadow loss with this gap is half a squared Triplet loss with this squared distance.
    """
    check_margin(margin)
    check_choice(unit, UNITS, "unit")
    gap = {
        "gap": margin,
        "cosine": margin,
        "squared_distance": margin / 2,
        "distance": margin**2 / 2,
        "angle": 1 - math.cos(margin) if margin <= math.pi else math.nan,
    }[unit]
    if not gap <= 2:
        raise ValueError(
            f"a margin of {margin!r} in {unit} is more than unit rows can be apart (gap 2, distance 2, angle pi)."
        )
    margins = EquivalentMargins(gap, gap, 2 * gap, math.sqrt(2 * gap), 2 * math.asin(math.sqrt(gap / 2)))
    print(margins)
    return margins
