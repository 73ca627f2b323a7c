"""For each row and each of its floors: the nearest other row that lies farther than the floor.

    answer(i, floor) = arg min { distance(i, j) : distance(i, j) > floor, j not excluded for i }

With a floor for each positive pair this is semi-hard mining; with one floor below everything it is
hard mining. The rule is one comparison per floor and entry, and torch has no fused kernel for
"least above a floor", so two facts about numbers do it in two passes at the speed of memory:

1. Non-negative floats have the order of their bits read as integers.
2. Integer addition wraps around. Adding MIN - (floor + 1) to every entry moves those above the
   floor to the lower end of the integers, in order, and wraps the others to the upper end.

So after one addition the plain minimum of the line is the answer, exactly. Floors follow one
another in place (each addition is the difference to the last), which needs no second block.

When rows are compared with themselves only the upper triangle is multiplied: a block off the
diagonal serves its rows (axis 1) and its columns (axis 0). Half the product is never computed.

The distances are exact (`grid_rows`), and ties go to the smallest rank, so the answer depends on nothing but the rows.
`proposed_nearest` gives the same answers in less time where there are many rows.

Memory: the scratch, and for each floor its answer (value and rank).
"""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.ops.arg_min import Readings, group_minima, no_best, update_readings
from shadowmetric.ops.grid_rows import GridSide
from shadowmetric.ops.runs import NEVER, Runs, exclude
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES, similarity_blocks

NO_FLOOR = -1.0  # below every distance

FLOORS_AT_ONCE = 8  # whose answers are looked up together: fewer, larger operations
BITS = {torch.float32: torch.int32, torch.float64: torch.int64}

Reduce = Callable[[Tensor, Tensor, Callable[[Tensor], Readings]], None]
"""(minima of the groups of each reading, what it may lower, readings of some of these) -> None."""


class Nearest(NamedTuple):
    """For each row: how far the answer is (NEVER if there is none), and its rank."""

    distance: Tensor
    rank: Tensor


def nearest_beyond(
    left: GridSide,
    right: GridSide,
    floors: Sequence[Tensor],
    excluded: Runs,
    rank: Tensor,
    *,
    symmetric: bool,
    scratch_bytes: int = SCRATCH_BYTES,
) -> list[Nearest]:
    """Return one answer for each entry of each floor.

    The blocks are squared distances. floors[s] holds the s-th floor of rows 0, 1, ... and may end early, each no
    longer than the one before. rank orders the columns for ties and names the answer. symmetric: left and right are
    the same rows, so that blocks serve both directions.
    """
    sweep = Sweep([floor.view(BITS[left.dtype]) for floor in floors])
    best = no_best(len(sweep.floor), sweep.floor.dtype, sweep.floor.device)
    ascending = bool((rank[1:] > rank[:-1]).all())
    reach = (lambda top, _: (top, len(right))) if symmetric else None
    for block in similarity_blocks(left, right, scratch_bytes=scratch_bytes, reach=reach, temporaries=0.5):
        exclude(block, excluded)
        entries = block.values.view(sweep.floor.dtype)
        for axis, lines, places in directions(block.top, block.bottom, block.first, block.last, symmetric=symmetric):

            def reduce(
                minima: Tensor,
                place: Tensor,
                readings: Callable[[Tensor], Readings],
                entries: Tensor = entries,
                axis: int = axis,
                places: slice = places,
            ) -> None:
                update_readings(best, minima, place, readings, entries, axis, rank[places], ascending=ascending)

            sweep.meet(entries, axis, lines, reduce, restore=axis == 1 and symmetric and block.first > block.top)
    entry = best.value - sweep.move
    distance = torch.where(entry > sweep.floor, entry.view(left.dtype), NEVER)
    return sweep.answers(distance, best.rank)


def directions(top: int, bottom: int, first: int, last: int, *, symmetric: bool) -> list[tuple[int, slice, slice]]:
    """Return how a block is read: (axis along which it is reduced, the lines that it serves, the places it offers)."""
    rows, columns = slice(top, bottom), slice(first, last)
    return [(1, rows, columns), (0, columns, rows)] if symmetric and first > top else [(1, rows, columns)]


class Sweep:
    """The floors of all rows as bits, laid end to end, and how entries are moved to meet them."""

    def __init__(self, floors: Sequence[Tensor]):
        self.floor = torch.cat(list(floors))
        self.counts = [len(floor) for floor in floors]
        self.begins = [0, *itertools.accumulate(self.counts)][:-1]
        self.begin = torch.tensor(self.begins, device=self.floor.device)
        self.move = torch.iinfo(self.floor.dtype).max - self.floor  # = MIN - (floor + 1); wraps around by design
        self.step = self.move.clone()  # from the floor before
        for begin, before, count in zip(self.begins[1:], self.begins, self.counts[1:], strict=False):
            self.step[begin : begin + count] -= self.move[before : before + count]

    def line_of(self, place: Tensor) -> Tensor:
        """Return the row that a floor belongs to."""
        return place - self.begin.index_select(0, torch.bucketize(place, self.begin, right=True) - 1)

    def meet(self, entries: Tensor, axis: int, lines: slice, reduce: Reduce, *, restore: bool = False) -> None:
        """Meet the floors of some lines with the entries of one block. Moves the entries, or restores them."""
        start, stop = lines.start, lines.stop
        moved = torch.zeros(stop - start, dtype=entries.dtype, device=entries.device)
        for slots in range(0, len(self.counts), FLOORS_AT_ONCE):
            spans = []
            minima = []
            for slot in range(slots, min(slots + FLOORS_AT_ONCE, len(self.counts))):
                count = min(stop, self.counts[slot]) - start
                if count <= 0:
                    break
                span = slice(self.begins[slot] + start, self.begins[slot] + start + count)
                view = entries if count == stop - start else entries.narrow(1 - axis, 0, count)
                view.add_(self.step[span].unsqueeze(axis))
                moved[:count] = self.move[span]
                minima.append(group_minima(view, axis))
                spans.append(span)
            if not spans:
                break

            def readings(place: Tensor) -> Readings:
                line = self.line_of(place) - start
                return Readings(place, line, self.move.index_select(0, place) - moved.index_select(0, line))

            place = torch.cat([torch.arange(span.start, span.stop, device=entries.device) for span in spans])
            reduce(torch.cat(minima, 1 - axis), place, readings)
        if restore:
            entries.sub_(moved.unsqueeze(axis))

    def answers(self, distance: Tensor, rank: Tensor) -> list[Nearest]:
        """Return the answers floor by floor."""
        return [Nearest(*parts) for parts in zip(distance.split(self.counts), rank.split(self.counts), strict=True)]
