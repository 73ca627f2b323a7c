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

from typing import Any

import torch
from torch import Tensor

from shadowmetric.ops.arrays import Array, round_half_even, to_tensor
from shadowmetric.ops.opaque import opaque
from shadowmetric.ops.row_lengths import exponent_of, measure_rows, power_of_two, rows_at_once
from shadowmetric.ops.rows import Rows

GRID = 2.0**24
FINE = 2.0**22  # times finer than the grid: products of both parts then have at most 53 digits up to 2^16 columns
SHORTEST = 2.0**-500  # below the length of every row but a zero row, float64's divided by a power of two included
GATHERED_AT_ONCE = 2**16  # numbers of each side on a CPU; enough for two threads
DEVICE_GATHERED = 2**24  # elsewhere, where every call is a launch


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
    first, second = _round_rows(source, rows, scaled, normalize, finer)
    square = (first * first).sum(1)
    if second is not None:
        square += 2 * (first * second).sum(1)
    if normalize:
        square += square == 0  # only a zero row's is
    finest = source.new_empty(0, source.shape[1], dtype=kept) if second is None else to_tensor(second).to(kept)
    return to_tensor(first).to(kept), finest, to_tensor(square), to_tensor(length)


def _round_rows(source: Tensor, rows: Array, length: Array, normalize: bool, finer: bool) -> tuple[Array, Array | None]:
    """Return both parts of rows, from them in float64 and their lengths; overwrites the rows."""
    if normalize:
        rows = in_grid_steps(rows, length)
        unit: Any = 1 / GRID
    else:
        unit = power_of_two(exponent_of(to_tensor(length)))[:, None] / GRID
        rows = (source if source.dtype == torch.float64 else to_tensor(rows)) / unit
    first = round_half_even(rows)
    second = None
    if finer:
        rows -= first
        second = round_half_even(rows * FINE)
        second *= unit / FINE
    first *= unit
    return first, second


def in_grid_steps(rows: Array, length: Array) -> Array:
    """Return unit rows in steps of the grid, not rounded yet; in place, zero rows as they are."""
    rows /= (length.clip(SHORTEST, None) / GRID)[:, None]  # a power of two changes no digit
    return rows


def _round_again(source: Tensor, length: Tensor, normalize: bool, finer: bool) -> tuple[Tensor, Tensor | None]:
    """Return both parts of rows of known lengths."""
    kept, some = torch.promote_types(source.dtype, torch.float32), rows_at_once(source)
    parts = []
    for start in range(0, max(1, len(source)), some):
        here = source[start : start + some]
        both = _round_rows(here, here.to(torch.float64), length[start : start + some], normalize, finer)
        parts.append([part if part is None else part.to(kept) for part in both])
    if len(parts) == 1:
        return parts[0][0], parts[0][1]
    first, second = zip(*parts, strict=True)
    return torch.cat(first), torch.cat(second) if finer else None


class GridRows:
    """A matrix on the grid: its first part, its second if it is finer, |row|^2 on the grid, and |row| of the source.

    known: the last two, where they are known, so that fewer calls make the rest.
    """

    def __init__(self, source: Tensor, *, normalize: bool, finer: bool, known: tuple[Tensor, Tensor] | None = None):
        self.normalize, self.finer = normalize, finer
        source = source.detach()
        if known is None or source.dtype == torch.float64:  # whose lengths are of rows divided by a power of two
            self.first, second, self.square, self.length = round_to_grid(source, normalize, finer)
            self.second = second if finer else None
        else:
            self.square, self.length = known
            self.first, self.second = _round_again(source, self.length, normalize, finer)

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
    return _pair_dots(left.first, left.second, right.first, right.second, row, other)


def _empty_dots(
    first: Tensor, second: Tensor | None, other_first: Tensor, other_second: Tensor | None, row: Tensor, other: Tensor
) -> Tensor:
    return row.new_empty(len(row), dtype=torch.float64)


@opaque("pair_dots", _empty_dots)
def _pair_dots(
    first: Tensor, second: Tensor | None, other_first: Tensor, other_second: Tensor | None, row: Tensor, other: Tensor
) -> Tensor:
    dim = first.shape[1]
    dots = torch.empty(len(row), dtype=torch.float64, device=first.device)
    at_once = GATHERED_AT_ONCE if first.device.type == "cpu" else DEVICE_GATHERED
    some = max(1, min(len(row), at_once // dim))
    buffers = [dots.new_empty(some, dim) for _ in range(2 if second is None else 4)]  # fresh ones cost page faults
    sides = [(first, row), (other_first, other)]
    if second is not None and other_second is not None:
        sides += [(second, row), (other_second, other)]
    for start in range(0, len(row), some):
        parts = [side.index_select(0, rows[start : start + some]) for side, rows in sides]
        rows, others, *seconds = (buffer[: len(part)].copy_(part) for buffer, part in zip(buffers, parts, strict=True))
        out = dots[start : start + some]
        if seconds:
            cross = seconds[0].mul_(others).addcmul_(rows, seconds[1])
            torch.sum(rows.mul_(others), 1, out=out).add_(cross.sum(1))
        else:
            torch.sum(rows.mul_(others), 1, out=out)
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
        selection = slice(start, stop) if self.order is None else self.order[start:stop]
        rows[:, :dim] = self.grid.first[selection]
        if self.grid.second is not None:
            rows[:, dim:] = self.grid.second[selection]
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


class ExactSide:
    """Rows on the grid in float64, whole, for products without buffers: large calls, and compiled graphs."""

    def __init__(self, grid: GridRows):
        self.grid = grid
        self.first = grid.first.to(torch.float64)
        self.second = None if grid.second is None else grid.second.to(torch.float64)

    def squared_distances(self, here: slice, other: "ExactSide") -> Tensor:
        """Return the squared distances of some rows to all of the other side: float64, exact."""
        square, other_square = self.grid.square[here, None], other.grid.square
        if self.second is None or other.second is None:  # exact, so that no order of these matters
            return torch.addmm(other_square, self.first[here], other.first.T, alpha=-2.0).add_(square)
        cross = self.first[here] @ other.second.T + self.second[here] @ other.first.T
        dots = self.first[here] @ other.first.T + cross
        return torch.sub(square + other_square, dots, alpha=2).clamp_min_(0.0)
