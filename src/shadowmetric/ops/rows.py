"""Rows of a matrix in working precision, loaded a few at a time.

A product of two matrices of unit rows, of rows in another order, or of half-precision rows summed
in float32 would need whole copies of both. `Rows` describes such a matrix and makes the rows that
a block asks for, in one buffer that is used again:

    row i = [ source[order[i]] / divisor[order[i]],  tail[order[i]] ]

Memory: one buffer of as many rows as the largest block.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

CONVERTED_AT_ONCE = 2**20  # numbers
SHORTEST_ROW = 1e-12  # a zero row has no direction; dividing by this keeps it zero


def working_dtype(*dtypes: torch.dtype) -> torch.dtype:
    """Return the type that sums are made in: the widest of the types, and at least float32."""
    return functools.reduce(torch.promote_types, dtypes, torch.float32)


def row_lengths_of(source: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return the length of each row in working precision, without a graph; no copy of the rows."""
    dtype = dtype or working_dtype(source.dtype)
    if dtype == source.dtype:
        return torch.linalg.vector_norm(source.detach(), dim=1)
    some = max(1, CONVERTED_AT_ONCE // source.shape[1])  # a norm in another type copies its rows
    lengths = torch.empty(len(source), dtype=dtype, device=source.device)  # parts kept one by one would pin the heap
    for part, length in zip(source.detach().split(some), lengths.split(some), strict=True):
        length.copy_(torch.linalg.vector_norm(part, dim=1, dtype=dtype))
    return lengths


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

    def __len__(self) -> int:
        return len(self.source if self.order is None else self.order)

    def made_whole(self, most_bytes: int) -> "Rows":
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
        chosen = slice(start, stop) if self.order is None else self.order[start:stop]
        if self.unchanged:
            torch.index_select(self.source, 0, chosen, out=rows)  # pyright: ignore[reportCallIssue, reportArgumentType]
        elif self.divisor is None:
            rows[:, :dim].copy_(self.source[chosen])
        else:
            torch.div(self.source[chosen], self.divisor[chosen, None], out=rows[:, :dim])
        for column, values in enumerate(self.tail, start=dim):
            rows[:, column].copy_(values[chosen])
        return rows


def unit_rows(source: Tensor, order: Tensor | None = None, dtype: torch.dtype | None = None) -> Rows:
    """Return rows of length 1 (zero rows stay zero)."""
    return Rows(source, order=order, divisor=row_lengths_of(source, dtype).clamp_min(SHORTEST_ROW), dtype=dtype)


class DistanceRows(NamedTuple):
    """Two sides whose product is squared distance + offset.

    Rounding can make it smaller than `least`, if that is not None; blocks must then be raised to it.
    """

    left: Rows
    right: Rows
    offset: float
    least: float | None


def squared_distance_rows(
    source: Tensor,
    other: Tensor,
    *,
    order: Tensor | None = None,
    other_order: Tensor | None = None,
    normalize: bool = True,
) -> DistanceRows:
    """Return sides whose product is |a - x|^2 + offset for rows a of `source` and x of `other`.

    |a - x|^2 = |a|^2 + |x|^2 - 2 a.x, and lengths are 1 when normalised, so one or two more columns turn
    the product into distances. On unit rows an offset of 1/8 keeps rounding from making the distance of
    two equal rows negative; on rows of free length it would drown the short ones, so there is none.
    """
    dtype = working_dtype(source.dtype, other.dtype)
    length, other_length = row_lengths_of(source, dtype), row_lengths_of(other, dtype)
    one, other_one = torch.ones_like(length), torch.ones_like(other_length)
    if normalize:
        offset = 0.125
        divisor, other_divisor = length.clamp_min(SHORTEST_ROW), other_length.clamp_min(SHORTEST_ROW)
        tail, other_tail = (one,), (other_one * (2 + offset),)
    else:
        offset = 0.0
        divisor, other_divisor = None, other_one
        tail, other_tail = (length.square(), one), (other_one, other_length.square())
    return DistanceRows(
        Rows(source, order=order, divisor=divisor, tail=tail, dtype=dtype),
        Rows(other, order=other_order, divisor=other_divisor / -2, tail=other_tail, dtype=dtype),
        offset,
        None if normalize else 0.0,
    )
