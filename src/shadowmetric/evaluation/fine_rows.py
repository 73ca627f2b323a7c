"""Unit rows whose squared distances are one number on every machine, to 14 digits, loaded a few at a time.

The grid of `ops/exact_rows` has 2^-24 as its step, which is right for ranks and too coarse for a sum of distances. Here
a row has two parts, the second in multiples of 2^-46:

    row = first + second,     first in multiples of 2^-24,  |second| at most 2^-25

    dot(a, x)        = first . first + (first . second + second . first)     each sum exact in float64, in any order
    squared(a, x)    = max(|a|^2 + |x|^2 - 2 dot(a, x) - ROUNDING, 0)          with |a|^2 = dot(a, a)

Products of both second parts, below 1e-15 times dim, are left out on all sides, so that equal rows are at distance 0.
A zero row stays zero. Distances below 3e-7, which is what the rounding of float32 leaves between rows of one direction,
are 0.

Memory: as `Rows`, of twice the width. Time: three products.
"""

import torch
from torch import Tensor

from shadowmetric.ops.exact_rows import GRID
from shadowmetric.ops.row_lengths import row_lengths_of
from shadowmetric.ops.rows import Rows

FINE = 2.0**22  # times finer than the grid; products of first and second parts have 53 digits up to 2^16 columns
ROUNDING = 1e-13  # of a squared distance


class FineUnitRows(Rows):
    """Rows of length 1 in two parts, side by side; blocks of two such sides are squared distances."""

    def __init__(self, source: Tensor, order: Tensor | None = None, *, whole_bytes: int = 0):
        length = row_lengths_of(source)
        length = torch.where(length > 0, length, 1.0)
        super().__init__(source, order=order, divisor=length.div_(GRID), dtype=torch.float64)
        self.dim, self.width = self.width, 2 * self.width
        self.buffer = self.buffer.new_empty(0, self.width)
        self.whole = None
        self.square = length.new_empty(len(self))
        if len(self) * self.width * self.dtype.itemsize <= whole_bytes:
            self.whole = self.load(0, len(self))
            self.as_it_is = True
        some = max(1, min(2**16, max(whole_bytes, 2**17) // 16) // self.width)  # within half of what is given
        for start in range(0, len(self), some):
            first, second = self.load(start, min(start + some, len(self))).split(self.dim, dim=1)
            self.square[start : start + some] = first.square().sum(1) + 2 * (first * second).sum(1)

    def load(self, start: int, stop: int) -> Tensor:
        """Return rows start to stop, the second part behind the first; valid until the next call."""
        if self.whole is not None:
            return self.whole[start:stop]
        rows = super().load(start, stop)
        first, second = rows.split(self.dim, dim=1)
        torch.round(first, out=second)
        first.sub_(second).mul_(FINE).round_().div_(FINE * GRID)  # the second part, where the first is to be
        rest = first.clone()
        torch.div(second, GRID, out=first)
        second.copy_(rest)
        return rows

    def multiply(self, rows: Tensor, other: Rows, columns: Tensor, top: int, first: int, out: Tensor) -> None:
        """Write the squared distances of loaded rows and columns, which stand at `top` and `first`, into `out`."""
        assert isinstance(other, FineUnitRows)
        a, finer_a = rows.split(self.dim, dim=1)
        x, finer_x = columns.split(self.dim, dim=1)
        cross = torch.mm(a, finer_x.T)
        cross.addmm_(finer_a, x.T)
        torch.mm(a, x.T, out=out)
        out += cross
        squares = self.square[top : top + len(rows), None] + other.square[first : first + len(columns)]
        torch.sub(squares, out, alpha=2, out=out).sub_(ROUNDING).clamp_min_(0.0)
