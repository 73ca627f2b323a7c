"""Arg-min of each row or column of a block, found through the minima of groups.

On a CPU `amin` runs at the speed of memory and `min(dim)` with indices does not, so the minimum is
taken over groups of 64 first, and the place is looked for inside the one group that holds it; and
only in lines whose minimum is of use, which after a few blocks are a minority.

Ties go to the smallest rank: `rank` gives each place along the axis a number, so that the result
does not depend on the order in which rows were arranged for speed.

Memory: 1/64 of the block, and a copy of the lines that hold a tie.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

GROUP = 64
LAST = torch.iinfo(torch.int64).max


class Best(NamedTuple):
    """The least value of each line so far, and the smallest rank that attains it."""

    value: Tensor
    rank: Tensor


def no_best(lines: int, dtype: torch.dtype, device: torch.device) -> Best:
    """Return a start that every value improves."""
    return Best(
        torch.full((lines,), _most(dtype), dtype=dtype, device=device),
        torch.full((lines,), LAST, dtype=torch.int64, device=device),
    )


def group_minima(values: Tensor, axis: int) -> Tensor:
    """Return the minima of groups of 64 along the axis: (lines, groups) or, for axis=0, (groups, lines)."""
    whole = values.shape[axis] // GROUP * GROUP
    return values.narrow(axis, 0, whole).unflatten(axis, (-1, GROUP)).amin(axis + 1)


class Readings(NamedTuple):
    """Several readings of one block: reading i is line[i] of the values plus move[i], and may lower place[i]."""

    place: Tensor
    line: Tensor
    move: Tensor | None

    def at(self, selection: Tensor) -> "Readings":
        """Return some of the readings."""
        return Readings(
            self.place[selection], self.line[selection], None if self.move is None else self.move[selection]
        )


def update_arg_min(best: Best, values: Tensor, axis: int, rank: Tensor, place: Tensor) -> None:
    """Lower `best` at `place` by the lines of a block, in place.

    values (rows, columns); rank (int64) numbers the places along `axis`. With axis=1 the lines are
    rows, with axis=0 columns. The block is read where it lies: no transposed copy.
    """
    start = place[0]
    update_readings(best, group_minima(values, axis), place, lambda p: Readings(p, p - start, None), values, axis, rank)


def update_readings(
    best: Best,
    minima: Tensor,
    place: Tensor,
    readings: Callable[[Tensor], Readings],
    values: Tensor,
    axis: int,
    rank: Tensor,
    *,
    ascending: bool = False,
) -> None:
    """Lower `best` by readings whose group minima are known: (readings, groups) or, for axis=0, (groups, readings).

    place: what each reading may lower; readings(places) describes the readings of some of them.
    ascending: the ranks ascend, so that the first of equals, which torch finds, is the one of smallest rank.
    """
    whole = minima.shape[axis] * GROUP
    if whole:
        better = (minima.amin(axis) <= best.value[place]).nonzero()[:, 0]
        if len(better):
            minima = minima[better] if axis == 1 else minima[:, better].T  # (better, groups)
            candidates = readings(place[better])
            winners = _find(minima, candidates, values.narrow(axis, 0, whole), axis, rank[:whole], ascending=ascending)
            _update(best, candidates.place, *winners)
    if whole < values.shape[axis]:
        rest = values.narrow(axis, whole, values.shape[axis] - whole)
        _update(best, place, *_scan(lines_of(rest, axis, readings(place)), rank[whole:]))


def _find(
    minima: Tensor, readings: Readings, values: Tensor, axis: int, rank: Tensor, *, ascending: bool
) -> tuple[Tensor, Tensor]:
    """Return the least value of each reading and its smallest rank."""
    least, group = minima.min(dim=1)
    members = members_of(values, axis, readings, group)
    member = members.argmin(1)
    winner = rank[group * GROUP + member]
    if ascending:
        return least, winner
    tied = ((_second(minima, group) == least) | (_second(members, member) == least)).nonzero()[:, 0]
    if len(tied):
        _, winner[tied] = _scan(lines_of(values, axis, readings.at(tied)), rank)
    return least, winner


def members_of(values: Tensor, axis: int, readings: Readings, group: Tensor) -> Tensor:
    """Return the members of one group of each reading, moved as they read them: (readings, GROUP)."""
    grouped = values.unflatten(axis, (-1, GROUP))
    if axis == 0:
        members = grouped[group, :, readings.line]
    elif values.is_contiguous():  # `index_select` copies whole groups, in a fifth of the time
        members = values.view(-1, GROUP).index_select(0, readings.line * grouped.shape[1] + group)
    else:
        members = grouped[readings.line, group]
    return members if readings.move is None else members.add_(readings.move[:, None])


def _second(values: Tensor, first: Tensor) -> Tensor:
    """Return the least of each row besides its `first` entry; overwrites that entry."""
    return values.scatter_(1, first[:, None], _most(values.dtype)).amin(1)


def _most(dtype: torch.dtype) -> int | float:
    return float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max


def lines_of(values: Tensor, axis: int, readings: Readings) -> Tensor:
    """Return the lines of a block that some readings read, moved as they read them."""
    lines = values[readings.line] if axis == 1 else values[:, readings.line].T
    return lines if readings.move is None else lines + readings.move[:, None]


def _scan(values: Tensor, rank: Tensor) -> tuple[Tensor, Tensor]:
    least = values.amin(1)
    return least, torch.where(values == least[:, None], rank, LAST).amin(1)


def _update(best: Best, place: Tensor, value: Tensor, rank: Tensor) -> None:
    old_value, old_rank = best.value[place], best.rank[place]
    better = (value < old_value) | ((value == old_value) & (rank < old_rank))
    best.value[place] = torch.where(better, value, old_value)
    best.rank[place] = torch.where(better, rank, old_rank)
