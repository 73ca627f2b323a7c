"""What a margin means in the other units, on unit rows.

A margin is a difference of two measurements. Gap, cosine and squared distance differ by a factor, so
there a margin converts exactly and everywhere. Distance and angle are curved against them: the
same difference means more or less depending on where it lies, so those two are given for a pair
that starts at distance 0, which is where their relation is usually quoted.

    gap = 1 - cos = squared distance / 2 = 2 sin^2(angle / 2)
"""

import math
from typing import Literal, NamedTuple, get_args

from shadowmetric.checks import check_choice, check_margin

MarginUnit = Literal["gap", "cosine", "squared_distance", "distance", "angle"]


class EquivalentMargins(NamedTuple):
    """One margin in five units; its text is the table. gap, cosine and squared_distance are exact everywhere."""

    gap: float
    cosine: float
    squared_distance: float
    distance: float
    angle: float

    def __repr__(self) -> str:
        return "\n".join(
            (
                f"gap               {self.gap:.6g}",
                f"cosine            {self.cosine:.6g}",
                f"squared distance  {self.squared_distance:.6g}",
                f"distance, from 0  {self.distance:.6g}",
                f"angle, from 0     {self.angle:.6g} rad, {math.degrees(self.angle):.4g} degrees",
            )
        )


def equivalent_margins(margin: float, unit: MarginUnit = "gap") -> EquivalentMargins:
    """Return what a margin in `unit` is in every unit, on unit rows.

    A Shadow loss with this gap is half a squared Triplet loss with this squared distance.
    """
    check_margin(margin)
    check_choice(unit, get_args(MarginUnit), "unit")
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
    return EquivalentMargins(gap, gap, 2 * gap, math.sqrt(2 * gap), 2 * math.asin(math.sqrt(gap / 2)))
