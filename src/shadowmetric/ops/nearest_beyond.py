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

Memory: the scratch, and for each floor its answer (value and rank).
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.ops.arg_min import Readings, group_minima, no_best, update_readings
from shadowmetric.ops.rows import Rows
from shadowmetric.ops.runs import NEVER, Runs, exclude
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES, similarity_blocks

NO_FLOOR = -1  # as bits: below every distance

FLOORS_AT_ONCE = 8  # whose answers are looked up together: fewer, larger operations
BITS = {torch.float32: torch.int32, torch.float64: torch.int64}


class Nearest(NamedTuple):
    """For each row: how far the answer is (NEVER if there is none), and its rank."""

    distance: Tensor
    rank: Tensor


def nearest_beyond(
    left: Rows,
    right: Rows,
    floors: Sequence[Tensor],
    excluded: Runs,
    rank: Tensor,
    *,
    symmetric: bool,
    least: float | None = None,
    scratch_bytes: int = SCRATCH_BYTES,
) -> list[Nearest]:
    """Return one answer for each entry of each floor.

    left . right must be distances >= 0 once raised to `least`. floors[s] holds the s-th floor (as bits) of
    rows 0, 1, ... and may end early, each no longer than the one before. rank orders the columns for ties
    and names the answer. symmetric: left and right are the same rows, so that blocks serve both directions.
    """
    sweep = _Sweep(floors, rank)
    reach = (lambda top, _: (top, len(right))) if symmetric else None
    blocks = similarity_blocks(left, right, scratch_bytes=scratch_bytes, reach=reach, temporaries=0.5, least=least)
    for block in blocks:
        exclude(block, excluded)
        entries = block.values.view(sweep.best.value.dtype)
        both = symmetric and block.first > block.top
        sweep.meet(entries, 1, block.top, block.bottom, rank[block.first : block.last], restore=both)
        if both:
            sweep.meet(entries, 0, block.first, block.last, rank[block.top : block.bottom])
    distance = sweep.distances().view(left.dtype)
    sizes = [len(floor) for floor in floors]
    return [Nearest(*parts) for parts in zip(distance.split(sizes), sweep.best.rank.split(sizes), strict=True)]


class _Sweep:
    """The floors of all rows, laid end to end, and the best answer to each so far."""

    def __init__(self, floors: Sequence[Tensor], rank: Tensor):
        self.ascending = bool((rank[1:] > rank[:-1]).all())
        self.floor = torch.cat(list(floors))
        self.counts = [len(floor) for floor in floors]
        self.begins = [0, *itertools.accumulate(self.counts)][:-1]
        self.best = no_best(len(self.floor), self.floor.dtype, self.floor.device)
        self.begin = torch.tensor(self.begins, device=self.floor.device)
        self.move = torch.iinfo(self.floor.dtype).max - self.floor  # = MIN - (floor + 1); wraps around by design
        self.step = self.move.clone()  # from the floor before
        for begin, before, count in zip(self.begins[1:], self.begins, self.counts[1:], strict=False):
            self.step[begin : begin + count] -= self.move[before : before + count]

    def meet(self, entries: Tensor, axis: int, start: int, stop: int, rank: Tensor, *, restore: bool = False) -> None:
        """Meet the floors of lines [start, stop) with the entries of one block. Moves the entries, or restores them."""
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
                line = place - self.begin[torch.bucketize(place, self.begin, right=True) - 1] - start
                return Readings(place, line, self.move[place] - moved[line])

            place = torch.cat([torch.arange(span.start, span.stop, device=entries.device) for span in spans])
            update_readings(
                self.best,
                torch.cat(minima, 1 - axis),
                place,
                readings,
                entries,
                axis,
                rank,
                ascending=self.ascending,
            )
        if restore:
            entries.sub_(moved.unsqueeze(axis))

    def distances(self) -> Tensor:
        """Return the bits of the answers; NEVER where nothing was above the floor."""
        floats = torch.float32 if self.floor.dtype == torch.int32 else torch.float64
        never = torch.full((), NEVER, dtype=floats, device=self.floor.device).view(self.floor.dtype)
        entry = self.best.value - self.move
        return torch.where(entry > self.floor, entry, never)
