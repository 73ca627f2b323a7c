"""A loss that is a function of whole similarity rows, evaluated a few rows at a time.

    out[i] = sum over terms of term(embeddings[i] . references, ...)

Naive program: similarity = embeddings @ references.T, then the terms on all of it, which keeps several
(batch, references) tensors. Here a block of rows is made, the terms reduce it to a few numbers per
row, and backward makes the same block again and differentiates the terms on it, one term at a
time. The result is exact, and costs one product more than the naive program.

Memory: the scratch; kept for backward, the inputs by reference and nothing else.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from shadowmetric.ops.once import refuse_second_derivative
from shadowmetric.ops.rows import Rows, working_dtype
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES, Block, square_side, whole_row_blocks
from shadowmetric.types import Embeddings, References

Term = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(dots (rows, references), length of each row (rows,), of each column (references,)) -> (rows, outputs)."""

Terms = Callable[[int, int], Sequence[Term]]
"""The terms of rows [start, stop); what they share (masks) is made once here."""


def row_stream(
    embeddings: Embeddings,
    references: References,
    row_length: Tensor,
    column_length: Tensor,
    terms: Terms,
    *,
    order: Tensor | None = None,
    multiple: int = 1,
    outputs: int = 1,
    temporaries: float = 8.0,
    scratch_bytes: int = SCRATCH_BYTES,
) -> Tensor:
    """Return (batch, outputs): the sum of the terms for each row, differentiable in all four tensors.

    order: stream these rows of the embeddings instead (row_length then has one number for each of them),
    a multiple of `multiple` in each block, so that a term may combine neighbours.
    temporaries: how many tensors of the block's shape a term makes, forward and backward together.
    """
    settings = _Settings(terms, order, multiple, outputs, temporaries, scratch_bytes)
    return _RowStream.apply(embeddings, references, row_length, column_length, settings)  # pyright: ignore[reportReturnType]


class _Settings(NamedTuple):
    terms: Terms
    order: Tensor | None
    multiple: int
    outputs: int
    temporaries: float
    scratch_bytes: int

    def blocks(self, left: Rows, right: Rows) -> Iterator[Block]:
        return whole_row_blocks(
            left, right, scratch_bytes=self.scratch_bytes, temporaries=self.temporaries, multiple=self.multiple
        )


class _RowStream(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        embeddings: Tensor,
        references: Tensor,
        row_length: Tensor,
        column_length: Tensor,
        settings: _Settings,
    ) -> Tensor:
        ctx.save_for_backward(embeddings, references, row_length, column_length)
        ctx.settings = settings
        left, right = _sides(embeddings, references, settings.order)
        out = torch.zeros(len(left), settings.outputs, dtype=left.dtype, device=embeddings.device)
        for top, bottom, _, _, dots in settings.blocks(left, right):
            for term in settings.terms(top, bottom):
                out[top:bottom] += term(dots, row_length[top:bottom], column_length)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        embeddings, references, row_length, column_length = ctx.saved_tensors
        settings: _Settings = ctx.settings
        left, right = _sides(embeddings, references, settings.order)
        grad_left, grad_right = (
            torch.zeros(rows.shape, dtype=left.dtype, device=rows.device) if needed else None
            for rows, needed in zip((embeddings, references), ctx.needs_input_grad[:2], strict=True)
        )
        grad_row, grad_column = torch.zeros_like(row_length), torch.zeros_like(column_length)
        side = square_side(left, settings.scratch_bytes // 4, 0.0)
        for top, bottom, _, _, dots in settings.blocks(left, right):
            inputs = [dots, row_length[top:bottom], column_length]
            grad_dots = torch.zeros_like(dots)
            for term in settings.terms(top, bottom):
                here = _gradients(term, inputs, grads[0][top:bottom])
                for total, grad in zip((grad_dots, grad_row[top:bottom], grad_column), here, strict=True):
                    if grad is not None:
                        total += grad
            _multiply_back(grad_dots, left, right, top, grad_left, grad_right, side)
        return (
            None if grad_left is None else grad_left.to(embeddings.dtype),
            None if grad_right is None else grad_right.to(references.dtype),
            grad_row,
            grad_column,
            None,
        )


def _sides(embeddings: Tensor, references: Tensor, order: Tensor | None) -> tuple[Rows, Rows]:
    dtype = working_dtype(embeddings.dtype, references.dtype)
    return Rows(embeddings, order=order, dtype=dtype), Rows(references, dtype=dtype)


def _gradients(term: Term, inputs: Sequence[Tensor], grad_out: Tensor) -> Sequence[Tensor | None]:
    """Return the gradient of one term with respect to its three inputs."""
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    with torch.enable_grad():
        out = term(*leaves)
    if not out.requires_grad:
        return [None] * len(leaves)
    return torch.autograd.grad(out, leaves, grad_out, allow_unused=True)


def _multiply_back(
    grad_dots: Tensor, left: Rows, right: Rows, top: int, grad_left: Tensor | None, grad_right: Tensor | None, side: int
) -> None:
    """Add the gradient of a block of dot products to the sides that want theirs."""
    bottom = top + len(grad_dots)
    rows = left.load(top, bottom)
    grad_rows = torch.zeros_like(rows) if grad_left is None or left.order is not None else grad_left[top:bottom]
    side = len(right) if right.as_it_is else side
    for first in range(0, len(right), side):
        last = min(first + side, len(right))
        if grad_left is not None:
            grad_rows.addmm_(grad_dots[:, first:last], right.load(first, last))
        if grad_right is not None:
            grad_right[first:last].addmm_(grad_dots[:, first:last].T, rows)
    if grad_left is not None and left.order is not None:
        grad_left.index_add_(0, left.order[top:bottom], grad_rows)
