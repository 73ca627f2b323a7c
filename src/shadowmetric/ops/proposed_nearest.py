"""The answers of `nearest_beyond`, mostly in float32: a fast product proposes, exact distances decide.

A float32 product of unit rows of D numbers is within

    error = 2 K u / (1 - K u) + 2 u D / K + 6 u + 2 max | |row|^2 - 1 |          u = 2^-24, K = min(D, 128)

of the squared distance on the grid, in whatever order the K products of a sum were added, and the sums to one another.
So of all rows the answer to a floor is one of those whose fast distance is above floor - error, and at most 2 error
beyond the least that is above floor + error. These candidates, about two for each floor among 8,192 random rows of 128
numbers, are measured exactly, and the nearest of them beyond the floor is the answer, ties to the smallest rank: that
of exact arithmetic, always.

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

WORTH_PROPOSING = 300**2  # entries of the product: below, float64 is as fast
UNIT_ROUNDOFF = 2.0**-24
OFFSET = 2.125  # squared distance = OFFSET - 2 cos - 1/8: positive however the product was rounded
SUMMED_AT_ONCE = 128  # products of a pair of rows
PART = 8  # of a group
CANDIDATES = 16  # for each floor, on average, and more of many columns; beyond that, exact arithmetic is faster
WAITING_BYTES = 64  # of a candidate until it is measured, and meanwhile


class _TooClose(Exception):
    """The fast product does not tell the rows apart."""


def propose_nearest(
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
    proposals = _Proposals(floors, (left, right), (order, other_order), scratch_bytes // 6)
    scratch_bytes -= scratch_bytes // 6
    whole_bytes = scratch_bytes // 7
    rows = Rows(left.first, order=order).make_whole(whole_bytes)
    columns = rows if symmetric else Rows(right.first, order=other_order).make_whole(whole_bytes)
    reach = (lambda top, _: (top, len(other_order))) if symmetric else None
    sides = _ProposedRows(rows.source, rows.order), Rows(columns.source, order=columns.order)
    try:
        for block in similarity_blocks(*sides, scratch_bytes=scratch_bytes, reach=reach, temporaries=0.5):
            exclude(block, excluded)
            proposals.meet(block, symmetric=symmetric)
    except _TooClose:
        return None
    return proposals.answers()


def _error(left: GridRows, right: GridRows) -> float:
    """Return how far a fast distance can be from the exact one."""
    summed = (min(left.dim, SUMMED_AT_ONCE) + left.dim // SUMMED_AT_ONCE + 4) * UNIT_ROUNDOFF  # 4 to spare
    uneven = max(float((side.square - 1).abs().max()) for side in (left, right))
    return 1.01 * (2 * summed / (1 - summed) + 6 * UNIT_ROUNDOFF + 2 * uneven)


class _ProposedRows(Rows):
    """Rows whose product with others is turned into squared distances + 1/8."""

    def __init__(self, source: Tensor, order: Tensor | None):
        super().__init__(source, order=order)
        self.more = torch.empty(0, device=source.device)
        self.temporaries = 1.0 if self.width > SUMMED_AT_ONCE else 0.0

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
    """The floors, the limit of each, beyond which its answer is not, and the candidates up to there.

    Distances are read as they were moved to meet the floor: those above floor - error ascend from the least integer,
    and those below it lie beyond every limit. So one comparison with the limit finds the candidates.
    """

    def __init__(
        self,
        floors: Sequence[Tensor],
        grids: tuple[GridRows, GridRows],
        orders: tuple[Tensor, Tensor],
        scratch_bytes: int,
    ):
        self.grids, self.orders = grids, orders
        self.error = error = _error(*grids)
        self.floor = torch.cat(list(floors))
        shifted = self.floor.clamp_min(2 * error - 0.125) + (OFFSET - 2.0)
        low, high = (self._round_away(shifted, by) for by in (-error, error))
        self.sweep = Sweep(low.view(BITS[low.dtype]).split([len(floor) for floor in floors]))
        self.high = self._move(high)  # what is above it is beyond the floor for certain
        self.limit = self._move(torch.full_like(high, NEVER)) - 1
        self.nearest = torch.full_like(self.floor, NEVER)
        self.rank = torch.full(self.floor.shape, LAST, dtype=torch.int64, device=self.floor.device)
        self.parts: list[tuple[Tensor, Tensor, Tensor]] = []
        self.waiting, self.most_waiting = 0, max(256, scratch_bytes // WAITING_BYTES)
        self.left = max(CANDIDATES, len(orders[1]) // 512) * len(high) + GROUP * GROUP

    @staticmethod
    def _round_away(values: Tensor, by: float) -> Tensor:
        """Return values + by in float32, rounded away from the values."""
        away = torch.tensor(by, dtype=torch.float32, device=values.device) * float("inf")
        return torch.nextafter((values + by).float(), away)

    def _move(self, distance: Tensor) -> Tensor:
        """Return a distance for each floor as it is moved to meet the floor."""
        return distance.view(self.sweep.floor.dtype) + self.sweep.move

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
        limit = self.limit.index_select(0, place)
        if whole < entries.shape[axis]:
            rest = entries.narrow(axis, whole, entries.shape[axis] - whole)
            lines = lines_of(rest, axis, readings(place))
            limit = self._lower(place, limit, lines.amin(1), lines)
            self._keep(place, limit, lines, first + whole)
        if whole == 0:
            return
        least = minima.amin(axis)
        better = (least <= limit).nonzero()[:, 0]
        if len(better) == 0:
            return
        place, limit, least = (values.index_select(0, better) for values in (place, limit, least))
        minima = minima.index_select(1 - axis, better)
        minima = minima if axis == 1 else minima.T  # (better, groups)
        limit = self._lower(place, limit, least, minima)
        reading, group = (minima <= limit[:, None]).nonzero().unbind(1)
        self._check_count(len(reading))
        place, limit = place.index_select(0, reading), limit.index_select(0, reading)
        members = members_of(entries.narrow(axis, 0, whole), axis, readings(place), group).unflatten(1, (-1, PART))
        reading, part = (members.amin(2) <= limit[:, None]).nonzero().unbind(1)  # few of many are looked at
        members = members.flatten(0, 1).index_select(0, reading * PART + part)
        place, limit, group = (values.index_select(0, reading) for values in (place, limit, group))
        self._keep(place, limit, members, first + group * GROUP + part * PART)

    def _lower(self, place: Tensor, limit: Tensor, least: Tensor, distances: Tensor) -> Tensor:
        """Lower the limits of candidates, of floors each of which comes once, by the least certain distance."""
        unsure = (least <= self.high.index_select(0, place)).nonzero()[:, 0]
        if len(unsure):
            distances, high = distances.index_select(0, unsure), self.high[place[unsure], None]
            certain = torch.where(distances > high, distances, torch.iinfo(least.dtype).max).amin(1)
            least.index_copy_(0, unsure, certain)
        move = self.sweep.move.index_select(0, place)
        distance = torch.minimum(least, limit).sub_(move).view(torch.float32).add_(2.01 * self.error)
        limit = torch.minimum(limit, distance.view(limit.dtype).add_(move))
        self.limit.index_copy_(0, place, limit)
        return limit

    def _keep(self, place: Tensor, limit: Tensor, distances: Tensor, first: int | Tensor) -> None:
        """Keep the candidates among some distances, whose columns begin at `first`."""
        reading, member = (distances <= limit[:, None]).nonzero().unbind(1)
        self._check_count(len(reading))
        if len(reading):
            column = member + (first if isinstance(first, int) else first.index_select(0, reading))
            distance = distances.flatten().index_select(0, reading * distances.shape[1] + member)
            self.parts.append((place.index_select(0, reading), column, distance))
            self.waiting += len(reading)
        if self.waiting > self.most_waiting:
            self._drop_farther()
            if self.waiting > self.most_waiting * 3 // 4:
                self._decide()

    def _check_count(self, more: int) -> None:
        self.left -= more
        if self.left < 0:
            raise _TooClose

    def _drop_farther(self) -> None:
        """Drop the waiting candidates that are beyond the limit by now."""
        place, column, distance = (torch.cat(parts) for parts in zip(*self.parts, strict=True))
        self.parts = []
        possible = (distance <= self.limit.index_select(0, place)).nonzero()[:, 0]
        place, column, distance = (values.index_select(0, possible) for values in (place, column, distance))
        self.parts = [(place, column, distance)]
        self.waiting = len(possible)

    def _decide(self) -> None:
        """Measure the waiting candidates exactly, and keep the nearest for each floor."""
        ((place, column, _),) = self.parts
        self.parts, self.waiting = [], 0
        rank = self.orders[1].index_select(0, column)
        exact = pair_squared(*self.grids, self.orders[0].index_select(0, self.sweep.line_of(place)), rank)
        exact = torch.where(exact > self.floor.index_select(0, place), exact, NEVER)
        before = self.nearest.clone()
        self.nearest.scatter_reduce_(0, place, exact, "amin")
        self.rank.masked_fill_(self.nearest < before, LAST)
        first = (exact == self.nearest.index_select(0, place)).nonzero()[:, 0]
        self.rank.scatter_reduce_(0, place.index_select(0, first), rank.index_select(0, first), "amin")
        limit = self._move(self._round_away(self.nearest + (OFFSET - 2.0), self.error))
        torch.minimum(self.limit, limit, out=self.limit)

    def answers(self) -> list[Nearest]:
        """Return the answer to each floor."""
        if self.parts:
            self._drop_farther()
            self._decide()
        rank = torch.where(self.nearest < NEVER, self.rank, LAST)
        return self.sweep.answers(self.nearest, rank)
