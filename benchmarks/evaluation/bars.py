"""Two rows of one size, judged: is ours no slower than the peers, within its memory, and the same number?

    time          ours / peers, in total   <= 1
    peak memory   ours                     <= 512 MB
    difference    the largest of a figure  <= 1e-6

The bars were set for 60,000 rows of 64 numbers on two cores. What cannot be judged (no peers, no /proc) is None.
"""

import math
from typing import NamedTuple

from benchmarks.evaluation.plan import FIGURES
from benchmarks.run import Row

TIME_RATIO = 1.0
PEAK_MB = 512.0
DIFFERENCE = 1e-6


class Verdict(NamedTuple):
    """What was measured, beside its bar."""

    bar: str
    value: float | None
    limit: float

    @property
    def met(self) -> bool | None:
        """Return whether the bar is met; None where nothing is known."""
        return None if self.value is None else self.value <= self.limit


def verdicts(ours: Row, peers: Row) -> list[Verdict]:
    """Return how ours stands to each bar; a contender that was not run is an empty row."""
    peak = ours.get("peak_extra_mb")
    part = ", extrapolated" if peers.get("extrapolated") else ""
    name, difference = largest_difference(ours, peers)
    return [
        Verdict(f"time, ours / peers{part}", ratio(ours, peers, "total_s"), TIME_RATIO),
        Verdict("peak MB of ours", peak if isinstance(peak, float) else None, PEAK_MB),
        Verdict(f"largest difference ({name})" if name else "largest difference", difference, DIFFERENCE),
    ]


def ratio(ours: Row, peers: Row, column: str) -> float | None:
    """Return ours / peers in one column, or None where one of them is missing."""
    mine, theirs = ours.get(column), peers.get(column)
    return mine / theirs if isinstance(mine, float) and isinstance(theirs, float) and theirs else None


def largest_difference(ours: Row, peers: Row) -> tuple[str | None, float | None]:
    """Return which figure differs most, and by how much; NaN on one side only is infinitely far."""
    both = [name for name in FIGURES if ours.get(name) is not None and peers.get(name) is not None]
    differences = {name: _difference(ours[name], peers[name]) for name in both}
    name = max(differences, key=differences.__getitem__, default=None)
    return name, None if name is None else differences[name]


def _difference(mine: float, theirs: float) -> float:
    if math.isnan(mine) or math.isnan(theirs):
        return 0.0 if math.isnan(mine) and math.isnan(theirs) else math.inf
    return abs(mine - theirs)
