"""What a miner compares, and where the window above a positive ends: in the unit of a loss.

    unit         of unit rows is compared    of rows as they are    the window ends at
    "squared"    d2                          d2                     d2(a, p) + margin
    "gap"        d2, which is 2 gap          |a| gap                d2(a, p) + 2 margin    |a| gap(a, p) + |a| margin
    "distance"   d2                          d2                     (d(a, p) + margin)^2
    "angle"      d2                          d2 of unit rows        2 - 2 cos(angle(a, p) + margin)

d2 is the squared distance. For one anchor each of these has the order of what the unit says, and is exact: no root and
no quotient decides who is nearer. Among unit rows all units have one order and differ in the window alone. The window's
end is made of sums, products and roots, which are rounded in one way everywhere.
"""

import math
from typing import Literal, NamedTuple, get_args

from shadowmetric.checks import check_choice
from shadowmetric.ops.arrays import Array, library_of
from shadowmetric.ops.row_lengths import square_root

Unit = Literal["squared", "gap", "distance", "angle"]


def check_unit(unit: str) -> None:
    """Refuse an unknown unit."""
    check_choice(unit, get_args(Unit), "unit")


class Comparison(NamedTuple):
    """The unit in which anchors compare other rows, and whether with all rows at length 1."""

    unit: Unit = "squared"
    normalize: bool = True

    @property
    def unit_rows(self) -> bool:
        """Return whether unit rows are compared: an angle knows no lengths."""
        return self.normalize or self.unit == "angle"

    @property
    def of_gaps(self) -> bool:
        """Return whether gaps of rows as they are, times |a|, are compared; else squared distances."""
        return self.unit == "gap" and not self.normalize

    def upper_end(self, floor: Array, margin: float, square: Array) -> Array:
        """Return where the window above a positive ends. floor: of the positive; square: |a|^2, where gaps compare."""
        if self.of_gaps:
            return floor + square_root(square) * margin
        if self.unit == "angle":
            return _rotate(floor, margin)
        if self.unit == "distance":
            end = square_root(floor) + margin
            return end * end
        return floor + (2 * margin if self.unit == "gap" else margin)


def _rotate(squared: Array, margin: float) -> Array:
    """Return the squared distance of unit rows whose angle is larger by the margin; infinity beyond a half turn."""
    if margin >= math.pi:
        return squared + math.inf
    turn = _turn(margin)
    cosine = 1 - squared / 2
    sine = square_root((squared * (4 - squared)).clip(0, None)) / 2
    end = 2 - 2 * (cosine * turn.real - sine * turn.imag)
    return library_of(end).where(cosine > -turn.real, end, math.inf)


def _turn(angle: float) -> complex:
    """Return cos + i sin by their series: libraries may differ in the last digit, sums and products can't."""
    term = turn = complex(1.0)
    for power in range(1, 40):
        term = complex(-term.imag, term.real) * (angle / power)
        turn += term
    return turn
