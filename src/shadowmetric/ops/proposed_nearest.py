"""The answers of `nearest_beyond`, mostly in float32: a fast product proposes, exact distances decide.

A float32 product of unit rows of D numbers is within

    error = 2 K u / (1 - K u) + 2 u D / K + 6 u + 2 max | |row|^2 - 1 |          u = 2^-24, K = min(D, 128)

of the squared distance on the grid, in whatever order the K products of a sum were added, and the sums to one another.
So of all rows the answer to a floor is one of those whose fast distance is above floor - error, and at most 2 error
beyond the least that is above floor + error. These candidates, about two for each floor among 8,192 random rows of 128 numbers, are measured exactly, and the
nearest of them beyond the floor is the answer, ties to the smallest rank: that of exact arithmetic, always.

Rows that lie so close together that the fast product tells few of them apart have too many candidates; then the
function gives up, and `nearest_beyond` computes all of it exactly, in about twice the time.

Memory: the scratch, and for each floor its answer and a few candidates.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from shadowmetric.ops.arg_min import GROUP, LAST, Readings, lines_of, members_of
from shadowmetric.ops.grid_rows import GridRows, pair_squared
from shadowmetric.ops.nearest_beyond import BITS, Nearest, Sweep, directions
from shadowmetric.ops.rows import Rows
from shadowmetric.ops.runs import NEVER, Runs, exclude
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES, Block, similarity_blocks

WORTH_PROPOSING = 768**2  # entries of the product: below, float64 is as fast
UNIT_ROUNDOFF = 2.0**-24
OFFSET = 2.125  # squared distance = OFFSET - 2 cos - 1/8: positive however the product was rounded
SUMMED_AT_ONCE = 128  # products of a pair of rows
CANDIDATES = 12  # for each floor, on average; with more of them exact arithmetic throughout is faster


class _TooClose(Exception):
    """The fast product does not tell the rows apart."""


def proposed_nearest(
    left: GridRows,
    right: GridRows,
    order: Tensor,
    other_order: Tensor,
    floors: Sequence[Tensor],
    excluded: Runs,
    *,
    symmetric: bool,
    scratch_bytes: int = SCRATCH_BYTES,
) -> list[Nearest] | None:
    """Return one answer for each entry of each floor, as `nearest_beyond` with other_order as ranks; None if it can't.

    order, other_order: the rows of both sides in the order that floors and runs speak of.
    """
    if left.finer or not left.normalize or len(order) * len(other_order) < WORTH_PROPOSING:
        return None
    if torch.get_float32_matmul_precision() != "highest":  # the product may then have 11 or 8 digits
        return None
    proposals = _Proposals(floors, _error(left, right))
    whole_bytes = scratch_bytes // 7
    rows = Rows(left.first, order=order).made_whole(whole_bytes)
    columns = rows if symmetric else Rows(right.first, order=other_order).made_whole(whole_bytes)
    reach = (lambda top, _: (top, len(other_order))) if symmetric else None
    sides = _ProposedRows(rows.source, rows.order), Rows(columns.source, order=columns.order)
    try:
        for block in similarity_blocks(*sides, scratch_bytes=scratch_bytes, reach=reach, temporaries=0.5):
            exclude(block, excluded)
            proposals.meet(block, symmetric=symmetric)
    except _TooClose:
        return None
    return proposals.decide(left, right, order, other_order)


def _error(left: GridRows, right: GridRows) -> float:
    """Return how far a fast distance can be from the exact one."""
    summed = (min(left.dim, SUMMED_AT_ONCE) + left.dim // SUMMED_AT_ONCE) * UNIT_ROUNDOFF
    uneven = max(float((side.square - 1).abs().max()) for side in (left, right))
    return 1.01 * (2 * summed / (1 - summed) + 6 * UNIT_ROUNDOFF + 2 * uneven)


class _ProposedRows(Rows):
    """Rows whose product with others is turned into squared distances + 1/8."""

    def __init__(self, source: Tensor, order: Tensor | None):
        super().__init__(source, order=order)
        self.more = torch.empty(0, device=source.device)

    def multiply(self, rows: Tensor, other: Rows, columns: Tensor, top: int, first: int, out: Tensor) -> None:
        """Write OFFSET - 2 rows . columns into `out`: sums of few products each, so that they round less."""
        rows = rows.mul(-2.0)
        torch.mm(rows[:, :SUMMED_AT_ONCE], columns[:, :SUMMED_AT_ONCE].T, out=out)
        for start in range(SUMMED_AT_ONCE, self.width, SUMMED_AT_ONCE):
            if self.more.shape != out.shape:
                self.more = torch.empty_like(out)
            some = slice(start, start + SUMMED_AT_ONCE)
            out.add_(torch.mm(rows[:, some], columns[:, some].T, out=self.more))
        out.add_(OFFSET)


class _Proposals:
    """The floors, the least certain distance beyond each so far, and the candidates that may be nearer.

    Distances are read as they were moved to meet the floor: those above floor - error ascend from the least integer,
    and those below it lie beyond every limit. So one comparison with the limit finds the candidates.
    """

    def __init__(self, floors: Sequence[Tensor], error: float):
        self.error = error
        self.exact = torch.cat(list(floors))
        shifted = self.exact.clamp_min(2 * error - 0.125) + (OFFSET - 2.0)
        low, high = (self._rounded(shifted, by) for by in (-error, error))
        self.sweep = Sweep(low.view(BITS[low.dtype]).split([len(floor) for floor in floors]))
        self.high = self._moved(high, slice(None))  # what is above it is beyond the floor for certain
        self.best = self._moved(torch.full_like(high, NEVER), slice(None))
        self.limit = self.best - 1
        self.parts: list[tuple[Tensor, Tensor, Tensor]] = []
        self.room = CANDIDATES * len(high) + GROUP * GROUP

    @staticmethod
    def _rounded(values: Tensor, by: float) -> Tensor:
        """Return values + by in float32, rounded away from the values."""
        away = torch.tensor(by, dtype=torch.float32, device=values.device) * float("inf")
        return torch.nextafter((values + by).float(), away)

    def _moved(self, distance: Tensor, place: Tensor | slice) -> Tensor:
        """Return distances as they are moved to meet floors."""
        return distance.view(self.sweep.floor.dtype) + self.sweep.move[place]

    def meet(self, block: Block, *, symmetric: bool) -> None:
        """Meet the floors of a block's lines with its entries."""
        entries = block.values.view(self.sweep.floor.dtype)
        ways = directions(block.top, block.bottom, block.first, block.last, symmetric=symmetric)
        for axis, lines, places in ways:

            def reduce(
                minima: Tensor,
                place: Tensor,
                readings: Callable[[Tensor], Readings],
                axis: int = axis,
                first: int = places.start,
            ) -> None:
                self.collect(minima, place, readings, entries, axis, first)

            self.sweep.meet(entries, axis, lines, reduce, restore=axis == 1 and len(ways) == 2)

    def collect(
        self,
        minima: Tensor,
        place: Tensor,
        readings: Callable[[Tensor], Readings],
        entries: Tensor,
        axis: int,
        first: int,
    ) -> None:
        """Collect the candidates of some readings, from the groups that can hold any."""
        whole = minima.shape[axis] * GROUP
        if whole < entries.shape[axis]:
            rest = entries.narrow(axis, whole, entries.shape[axis] - whole)
            lines = lines_of(rest, axis, readings(place))
            self._lower(place, lines.amin(1), lines)
            self._keep(place, lines, first + whole)
        if whole == 0:
            return
        least = minima.amin(axis)
        better = (least <= self.limit[place]).nonzero()[:, 0]
        if len(better) == 0:
            return
        minima = minima[better] if axis == 1 else minima[:, better].T.contiguous()  # (better, groups)
        place, least = place[better], least[better]
        self._lower(place, least, minima)
        reading, group = (minima <= self.limit[place][:, None]).nonzero().unbind(1)
        self._check_room(len(reading))
        place = place[reading]
        members = members_of(entries.narrow(axis, 0, whole), axis, readings(place), group)
        self._keep(place, members, first + group * GROUP)

    def _lower(self, place: Tensor, least: Tensor, distances: Tensor) -> None:
        """Lower the least certain distance of floors, each of which comes once, and the limit of candidates."""
        unsure = (least <= self.high[place]).nonzero()[:, 0]
        if len(unsure):
            distances, high = distances[unsure], self.high[place[unsure], None]
            least[unsure] = torch.where(distances > high, distances, torch.iinfo(least.dtype).max).amin(1)
        self.best[place] = best = torch.minimum(self.best[place], least)
        distance = (best - self.sweep.move[place]).view(torch.float32).add_(2.01 * self.error)
        self.limit[place] = torch.minimum(self._moved(distance, place), self.limit[place])

    def _keep(self, place: Tensor, distances: Tensor, first: int | Tensor) -> None:
        """Keep the candidates among some distances, whose columns begin at `first`."""
        reading, member = (distances <= self.limit[place][:, None]).nonzero().unbind(1)
        self._check_room(len(reading))
        if len(reading):
            distance, column = (
                distances[reading, member],
                member + (first if isinstance(first, int) else first[reading]),
            )
            self.parts.append((place[reading], column, distance))

    def _check_room(self, more: int) -> None:
        self.room -= more
        if self.room < 0:
            raise _TooClose

    def decide(self, left: GridRows, right: GridRows, order: Tensor, other_order: Tensor) -> list[Nearest]:
        """Return the answers, by the exact distances of the candidates."""
        nearest = torch.full_like(self.exact, NEVER)
        ranks = torch.full(nearest.shape, LAST, dtype=torch.int64, device=nearest.device)
        if self.parts:
            place, column, distance = (torch.cat(parts) for parts in zip(*self.parts, strict=True))
            possible = distance <= self.limit[place]
            place, rank = place[possible], other_order[column[possible]]
            exact = pair_squared(left, right, order[self.sweep.line_of(place)], rank)
            exact = torch.where(exact > self.exact[place], exact, NEVER)
            nearest.scatter_reduce_(0, place, exact, "amin")
            first = exact == nearest[place]
            ranks.scatter_reduce_(0, place[first], rank[first], "amin")
        return self.sweep.answers(nearest, ranks)
