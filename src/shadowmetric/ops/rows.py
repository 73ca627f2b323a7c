"""Rows of a matrix in working precision, loaded a few at a time.

A product of two matrices of unit rows, of rows in another order, or of half-precision rows summed
in float32 would need whole copies of both. `Rows` describes such a matrix and makes the rows that
a block asks for, in one buffer that is used again:

    row i = [ source[order[i]] / divisor[order[i]],  tail[order[i]] ]

Memory: one buffer of as many rows as the largest block.
"""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor


def working_dtype(*dtypes: torch.dtype) -> torch.dtype:
    """Return the type that sums are made in: the widest of the types, and at least float32."""
    return functools.reduce(torch.promote_types, dtypes, torch.float32)


class Rows:
    """A matrix whose rows are made when they are asked for."""

    def __init__(
        self,
        source: Tensor,  # (rows, dim)
        *,
        order: Tensor | None = None,  # (any,) int64; a row may come several times
        divisor: Tensor | None = None,  # (rows,)
        tail: Sequence[Tensor] = (),  # columns to append, each (rows,)
        dtype: torch.dtype | None = None,  # to work in; that of the source, float32 for halves
    ):
        self.source = source.detach()
        self.order = order
        self.divisor = divisor
        self.tail = tail
        self.dtype = dtype or working_dtype(source.dtype)
        self.width = source.shape[1] + len(tail)
        self.unchanged = divisor is None and not tail and source.dtype == self.dtype
        self.as_it_is = self.unchanged and order is None
        self.buffer = source.new_empty(0, self.width, dtype=self.dtype)
        self.temporaries = 0.0  # blocks that `multiply` makes beside its result

    def __len__(self) -> int:
        return len(self.source if self.order is None else self.order)

    def make_whole(self, most_bytes: int) -> "Rows":
        """Return the same rows made once and for all, if they take at most so many bytes."""
        if self.as_it_is or len(self) * self.width * self.dtype.itemsize > most_bytes:
            return self
        return Rows(self.load(0, len(self)))

    def load(self, start: int, stop: int) -> Tensor:
        """Return rows start to stop; valid until the next call."""
        if self.as_it_is:
            return self.source[start:stop]
        if len(self.buffer) < stop - start:
            self.buffer = self.buffer.new_empty(stop - start, self.width)
        rows, dim = self.buffer[: stop - start], self.source.shape[1]
        selection = slice(start, stop) if self.order is None else self.order[start:stop]
        if self.unchanged:
            torch.index_select(self.source, 0, selection, out=rows)  # pyright: ignore[reportCallIssue, reportArgumentType]
        elif self.divisor is None:
            rows[:, :dim].copy_(self.source[selection])
        else:
            torch.div(self.source[selection], self.divisor[selection, None], out=rows[:, :dim])
        for column, values in enumerate(self.tail, start=dim):
            rows[:, column].copy_(values[selection])
        return rows

    def multiply(self, rows: Tensor, other: "Rows", columns: Tensor, top: int, first: int, out: Tensor) -> None:
        """Write the block of loaded rows and columns, which stand at `top` and `first` of their sides, into `out`."""
        torch.mm(rows, columns.T, out=out)
