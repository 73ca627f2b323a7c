"""Lengths of rows, the same on every machine, and their squares with a gradient.

    |row| = sqrt(sum of row[i]^2)          in float64, added in a fixed order: halves of the row onto one another

A norm of a library adds in the order that its processor likes, and so rounds as it likes; torch's root on a CPU is
MKL's, whose last digit is free too. Additions of whole tensors are used here, and numpy's root, which IEEE 754 rounds
in one way. float32 and half rows can't overflow or vanish when squared
in float64; rows of float64 are brought near 1 by a power of two first, so that a row's scale never matters.

Memory: a few numbers per row, and copies of a few rows at a time.
"""

from typing import Any, NamedTuple

import numpy
import torch
from torch import Tensor

from shadowmetric.ops.arrays import Array, is_on_host, to_tensor
from shadowmetric.ops.once import refuse_second_derivative
from shadowmetric.ops.opaque import opaque
from shadowmetric.types import Embeddings, Lengths

MADE_AT_ONCE = 2**16  # numbers on a CPU; fewer are not worth a second thread


class MeasuredRows(NamedTuple):
    """Rows in float64, those of float64 divided by a power of two, with their lengths and those of the source."""

    rows: Array
    scaled: Array
    length: Array


def row_lengths_of(source: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return the length of each row, without a graph; no copy of the rows."""
    return _row_lengths(source.detach()).to(dtype)


@opaque("row_lengths", lambda source: source.new_empty(len(source), dtype=torch.float64))
def _row_lengths(source: Tensor) -> Tensor:
    return torch.cat([to_tensor(measure_rows(part).length) for part in source.split(rows_at_once(source))])


def rows_at_once(source: Tensor) -> int:
    """Return how many rows are converted at once: few on a CPU, all where every call is a launch."""
    return max(1, MADE_AT_ONCE // source.shape[1] if source.device.type == "cpu" else len(source))


def measure_rows(source: Tensor) -> MeasuredRows:
    """Return some rows in float64 and their lengths; as numpy arrays where these are faster, but not of float64."""
    if source.dtype != torch.float64:
        rows: Array = source.to(torch.float64)
        rows = rows.numpy() if source.numel() <= MADE_AT_ONCE and is_on_host(source) else rows
        length = square_root(sum_in_order(rows * rows))
        return MeasuredRows(rows, length, length)
    exponent = exponent_of(source.abs().amax(1, keepdim=True)).clamp_max_(1022)
    rows = source * power_of_two(-exponent)
    scaled = square_root(sum_in_order(rows.square()))
    return MeasuredRows(rows, scaled, scaled * power_of_two(exponent[:, 0]))


@opaque("square_root", torch.empty_like)
def root_of(squares: Tensor) -> Tensor:
    """Return the root of each number, rounded correctly."""
    return torch.as_tensor(numpy.sqrt(squares.numpy())) if squares.device.type == "cpu" else squares.sqrt()


def square_root(squares: Array) -> Array:
    """Return the root of each number, rounded correctly."""
    return root_of(squares) if isinstance(squares, Tensor) else numpy.sqrt(squares)


def sum_in_order(values: Array) -> Array:
    """Return the sum of each row, added in one order whatever the machine; overwrites the values."""
    if not isinstance(values, Tensor):
        return _sum_columns(numpy.ascontiguousarray(values.T))
    width = values.shape[1]
    while width > 1:
        half = (width + 1) // 2
        upper = values[:, : width - half]
        upper += values[:, half:width]
        width = half
    return values[:, 0]


def _sum_columns(values: Array) -> Array:
    """Return the same sums of columns, whose halves lie together: of short rows much the quicker."""
    height = len(values)
    while height > 1:
        half = (height + 1) // 2
        values[: height - half] += values[half:height]
        height = half
    return values[0]


def exponent_of(values: Tensor) -> Tensor:
    """Return e with 2^(e - 1) <= value < 2^e for values of float64 that are not negative, read from their bits."""
    return (values.view(torch.int64) >> 52) - 1022


def power_of_two(exponent: Tensor) -> Tensor:
    """Return 2^e in float64 for e from -1022 to 1023, exactly: `ldexp` and `pow` need not be."""
    return ((exponent + 1023) << 52).view(torch.float64)


def squared_lengths(embeddings: Embeddings) -> Lengths:
    """Return |row|^2 of each row in working precision, keeping the rows by reference and nothing else."""
    return _SquaredLengths.apply(embeddings)  # pyright: ignore[reportReturnType]


class _SquaredLengths(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, embeddings: Tensor) -> Tensor:
        ctx.save_for_backward(embeddings)
        return row_lengths_of(embeddings).square().to(torch.promote_types(embeddings.dtype, torch.float32))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        refuse_second_derivative()
        (embeddings,) = ctx.saved_tensors
        return (embeddings * (2 * grads[0])[:, None]).to(embeddings.dtype)
