"""Rows on a grid: their dot products are exact, so that no distance depends on who multiplied, or in which order.

A product of floating numbers rounds as it sums, and the order of its sums depends on the processor, the shape of
the block, the threads and the place of a row: equal rows get unequal distances, and who is nearer becomes chance. So
rows are rounded once, before anything is compared, to few enough digits that float64 adds their products exactly:

    unit rows       row / |row| in multiples of 2^-24: the digits that float32 has just below 1
    finer           a second part in multiples of 2^-46, for float64 and for rows of free length, whose grid is
                    2^-24 and 2^-46 of the power of two above the row's length

    dot(a, x)       = a . x of the first parts                   + (first . second + second . first), if finer
    distance(a, x)  = max(|a|^2 + |x|^2 - 2 dot(a, x), 0)        squared; |a|^2 is dot(a, a)

Each sum is exact in any order, and what remains is added in this order: one number for each pair of rows, on every
machine. Equal rows have distance 0, and mirrored or permuted rows tie as they do on paper. A zero row has no
direction: among unit rows it is at squared distance 2 (cosine 0) from every row, itself included.

Memory: 4 bytes for each number of the rows, 8 if finer (16 from float64), and 16 for each row.
"""

import torch
from torch import Tensor

from shadowmetric.ops.opaque import opaque
from shadowmetric.ops.row_lengths import exponent_of, measure_rows, power_of_two, rows_at_once
from shadowmetric.ops.rows import Rows

GRID = 2.0**24
FINE = 2.0**22  # times finer than the grid: products of both parts then have at most 53 digits up to 2^16 columns
GATHERED_AT_ONCE = 2**16  # numbers of each side; enough for two threads


def _empty_grid(source: Tensor, normalize: bool, finer: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    first = source.new_empty(source.shape, dtype=torch.promote_types(source.dtype, torch.float32))
    square = source.new_empty(len(source), dtype=torch.float64)
    return first, torch.empty_like(first if finer else first[:0]), square, torch.empty_like(square)


@opaque("round_to_grid", _empty_grid)
def round_to_grid(source: Tensor, normalize: bool, finer: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the first and second part of rows on the grid, |row|^2 there, and |row| of the source."""
    some = rows_at_once(source)
    if len(source) <= some:
        return _round_some(source, normalize, finer)
    whole = _empty_grid(source, normalize, finer)
    for start in range(0, len(source), some):
        for part, values in zip(whole, _round_some(source[start : start + some], normalize, finer), strict=True):
            part[start : start + len(values)] = values
    return whole


def _round_some(source: Tensor, normalize: bool, finer: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    kept = torch.promote_types(source.dtype, torch.float32)
    rows, scaled, length = measure_rows(source)
    if normalize:
        step = torch.where(scaled > 0, scaled, 1.0).div_(GRID)[:, None]  # a power of two changes no digit
        unit: Tensor | float = 1 / GRID
        rows.div_(step)
    else:
        unit = power_of_two(exponent_of(length))[:, None] / GRID
        rows = source.to(torch.float64) / unit
    first = rows.round()
    square = torch.linalg.vecdot(first, first)
    if finer:
        rows.sub_(first).mul_(FINE).round_().div_(FINE)
        square += 2 * torch.linalg.vecdot(first, rows)
    square *= unit**2 if isinstance(unit, float) else unit[:, 0].square()
    if normalize:
        square = torch.where(scaled > 0, square, 1.0)
    second = rows.mul_(unit).to(kept) if finer else first.new_empty(0, first.shape[1], dtype=kept)
    return first.mul_(unit).to(kept), second, square, length


class GridRows:
    """A matrix on the grid: its first part, its second if it is finer, |row|^2 on the grid, and |row| of the source."""

    def __init__(self, source: Tensor, *, normalize: bool, finer: bool):
        self.normalize, self.finer = normalize, finer
        self.first, second, self.square, self.length = round_to_grid(source.detach(), normalize, finer)
        self.second = second if finer else None

    def __len__(self) -> int:
        return len(self.first)

    @property
    def dim(self) -> int:
        """Return how many numbers a row has."""
        return self.first.shape[1]

    def rows(self, source: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the rows that this was made of as they are compared, to the digits of a type."""
        if not self.normalize:
            return source.detach().to(dtype)
        return self.first.to(dtype) if self.second is None else self.first.to(dtype) + self.second


def pair_dots_of(left: GridRows, right: GridRows, row: Tensor, other: Tensor) -> Tensor:
    """Return dot(left[row], right[other]) of each pair, exactly: (pairs,) float64."""
    dots = torch.empty(len(row), dtype=torch.float64, device=left.first.device)
    some = max(1, min(len(row), GATHERED_AT_ONCE // left.dim))
    buffers = [dots.new_empty(some, left.dim) for _ in range(4 if left.finer else 2)]  # fresh ones cost page faults
    for start in range(0, len(row), some):
        chosen = row[start : start + some], other[start : start + some]
        parts = [side.first.index_select(0, rows) for side, rows in zip((left, right), chosen, strict=True)]
        for side, rows in zip((left, right), chosen, strict=True):
            if side.second is not None:
                parts.append(side.second.index_select(0, rows))
        first, other_first, *seconds = (
            buffer[: len(part)].copy_(part) for buffer, part in zip(buffers, parts, strict=True)
        )
        out = dots[start : start + some]
        if seconds:
            cross = seconds[0].mul_(other_first).addcmul_(first, seconds[1])
            torch.sum(first.mul_(other_first), 1, out=out).add_(cross.sum(1))
        else:
            torch.sum(first.mul_(other_first), 1, out=out)
    return dots


def pair_squared(left: GridRows, right: GridRows, row: Tensor, other: Tensor) -> Tensor:
    """Return the squared distance of each pair: (pairs,) float64."""
    square = left.square.index_select(0, row) + right.square.index_select(0, other)
    return square.sub_(pair_dots_of(left, right, row, other), alpha=2).clamp_min_(0.0)


class GridSide(Rows):
    """One side of a block loop over rows on the grid, in an order; blocks are float64, and exact.

    blocks of "squared" distances; of "dots"; or of "cosines" of unit rows, 1 - half the squared distance.
    """

    def __init__(self, grid: GridRows, order: Tensor | None = None, *, blocks: str = "squared", whole_bytes: int = 0):
        super().__init__(grid.first, order=order, dtype=torch.float64)
        self.grid, self.blocks = grid, blocks
        self.square = grid.square if order is None else grid.square[order]
        self.width = grid.dim * (2 if grid.finer else 1)
        self.buffer = self.buffer.new_empty(0, self.width)
        self.unchanged = self.as_it_is = False
        self.temporaries = 2.0 if grid.finer else 0.0
        self.whole = None
        if len(self) * self.width * self.dtype.itemsize <= whole_bytes:
            self.whole = self.load(0, len(self))
            self.as_it_is = True

    def load(self, start: int, stop: int) -> Tensor:
        """Return rows start to stop, the finer part behind the first; valid until the next call."""
        if self.whole is not None:
            return self.whole[start:stop]
        if len(self.buffer) < stop - start:
            self.buffer = self.buffer.new_empty(stop - start, self.width)
        rows, dim = self.buffer[: stop - start], self.grid.dim
        chosen = slice(start, stop) if self.order is None else self.order[start:stop]
        rows[:, :dim] = self.grid.first[chosen]
        if self.grid.second is not None:
            rows[:, dim:] = self.grid.second[chosen]
        return rows

    def multiply(self, rows: Tensor, other: Rows, columns: Tensor, top: int, first: int, out: Tensor) -> None:
        """Write the block of loaded rows and columns, which stand at `top` and `first` of their sides, into `out`."""
        assert isinstance(other, GridSide)
        dim = self.grid.dim
        torch.mm(rows[:, :dim], columns[:, :dim].T, out=out)
        if self.grid.finer:
            cross = torch.mm(rows[:, :dim], columns[:, dim:].T)
            out += cross.addmm_(rows[:, dim:], columns[:, :dim].T)
        if self.blocks == "dots":
            return
        square, other_square = self.square[top : top + len(rows), None], other.square[first : first + len(columns)]
        if not self.grid.finer:  # exact, so that no order of these matters
            out.mul_(-2.0).add_(square).add_(other_square)
        else:
            torch.sub(square + other_square, out, alpha=2, out=out).clamp_min_(0.0)
        if self.blocks == "cosines":
            out.mul_(-0.5).add_(1.0)


def squared_rows(grids: tuple[GridRows, GridRows], start: int, stop: int) -> Tensor:
    """Return the squared distances of rows [start, stop) of the first to all rows of the second: float64."""
    left, right = (GridSide(grid) for grid in grids)
    out = left.buffer.new_empty(stop - start, len(right))
    left.multiply(left.load(start, stop), right, right.load(0, len(right)), start, 0, out)
    return out
