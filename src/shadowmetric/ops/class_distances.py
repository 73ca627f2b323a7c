"""Squared distances of unit rows within classes that have as many rows each, such as the centers of SoftTriple.

    squared[c, i, j] = |u_ci - u_cj|^2          exact on the grid (`exact_blocks`), then rounded to working precision

Memory: kept for backward, one float64 for each row, and the rows by reference; the result has as many numbers for a row
as its class has rows.
"""

from typing import Any

import torch
from torch import Tensor

from shadowmetric.ops.exact_blocks import exact_block
from shadowmetric.ops.grid_rows import GridRows
from shadowmetric.ops.once import refuse_second_derivative
from shadowmetric.ops.precision import full_precision
from shadowmetric.ops.row_gradients import inverse_lengths, of_given_rows
from shadowmetric.ops.rows import working_dtype


def class_distances(rows: Tensor, grid: GridRows, count: int) -> Tensor:
    """Return the squared distances of each class: (classes, count, count). grid: the rows as unit rows on the grid."""
    side = grid.first.unflatten(0, (-1, count)), None, grid.square.unflatten(0, (-1, count))
    if grid.second is not None:
        side = side[0], grid.second.unflatten(0, (-1, count)), side[2]
    squared = exact_block(*side, *side, "squared").to(working_dtype(rows.dtype))
    return _KnownDistances.apply(rows, squared, grid.length)  # pyright: ignore[reportReturnType]


class _KnownDistances(torch.autograd.Function):
    """Known squared distances, with the gradient of the rows."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, squared: Tensor, length: Tensor) -> Tensor:
        ctx.save_for_backward(rows, length.clone())  # which may be a part of a longer one
        return squared.view_as(squared)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if not torch.compiler.is_compiling():
            refuse_second_derivative()
        rows, length = ctx.saved_tensors
        inverse = inverse_lengths(length, grads[0].dtype)
        unit = rows.to(grads[0].dtype) * inverse[:, None]
        with full_precision(rows.device):
            grad = (grads[0] + grads[0].mT) @ unit.unflatten(0, (-1, grads[0].shape[-1])) * -2
        return of_given_rows(grad.flatten(0, 1), unit, None, inverse).to(rows.dtype), None, None
