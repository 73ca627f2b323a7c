"""Lengths of rows, the same on every machine, and their squares with a gradient.

    |row| = sqrt(sum of row[i]^2)          in float64, added in a fixed order: halves of the row onto one another

A norm of a library adds in the order that its processor likes, and so rounds as it likes; torch's root on a CPU is
MKL's, whose last digit is free too. Additions of whole tensors are used here, and numpy's root, which IEEE 754 rounds
in one way. float32 and half rows can't overflow or vanish when squared
in float64; rows of float64 are brought near 1 by a power of two first, so that a row's scale never matters.

Memory: a few numbers per row, and copies of a few rows at a time.
"""

from typing import Any

import numpy
import torch
from torch import Tensor

from shadowmetric.ops.once import refuse_second_derivative
from shadowmetric.types import Embeddings, Lengths

SQUARED_AT_ONCE = 2**16  # numbers; fewer are not worth a second thread


def row_lengths_of(source: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return the length of each row, without a graph; no copy of the rows."""
    source = source.detach()
    lengths = torch.empty(len(source), dtype=torch.float64, device=source.device)
    some = max(1, SQUARED_AT_ONCE // source.shape[1])
    for part, length in zip(source.split(some), lengths.split(some), strict=True):
        rows, exponent = _near_one(part)
        length.copy_(square_root(sum_in_order(rows.square_())))
        if exponent is not None:
            length.mul_(power_of_two(exponent[:, 0]))
    return lengths.to(dtype)


def scaled_rows(source: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """Return some rows in float64 and their lengths; those of float64 brought near 1, both alike."""
    rows, exponent = _near_one(source)
    return rows, length if exponent is None else length * power_of_two(-exponent[:, 0])


def square_root(squares: Tensor) -> Tensor:
    """Return the root of each number, rounded correctly."""
    if squares.device.type != "cpu":
        return squares.sqrt()
    return torch.as_tensor(numpy.sqrt(squares.numpy()))


def sum_in_order(values: Tensor) -> Tensor:
    """Return the sum of each row, added in one order whatever the machine; overwrites the values."""
    width = values.shape[1]
    while width > 1:
        half = (width + 1) // 2
        values[:, : width - half] += values[:, half:width]
        width = half
    return values[:, 0]


def _near_one(source: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return a copy in float64; if the source is float64, divided by a power of two, and its exponent."""
    if source.dtype != torch.float64:
        return source.to(torch.float64), None
    exponent = exponent_of(source.abs().amax(1, keepdim=True)).clamp_max_(1022)
    return source * power_of_two(-exponent), exponent


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
