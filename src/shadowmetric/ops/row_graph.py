"""What `row_stream` computes, as operations that a compiler can follow: the way of a compiled graph.

    rows      the rows as they are compared, which pass their gradient on to the rows as given
    block     exact numbers, whose gradient is that of a product of those rows
    terms     ordinary operations; several blocks are checkpointed, so that backward makes them again

How many blocks there are depends on shapes and the scratch alone, and they are unrolled: a large batch compiles
faster with a large scratch.

Memory: as `row_stream`, with a few numbers more for each row; where one block is all, what the compiler keeps of it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from shadowmetric.ops.exact_blocks import Grids, Sides, Stream
from shadowmetric.ops.precision import full_precision
from shadowmetric.ops.row_gradients import inverse_lengths, of_given_rows

Term = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(block (rows, references), |row|^2 of each row (rows, 1), of each column (references,)) -> (rows, outputs).

The squares of unit rows are 1.
"""

TermList = Sequence[Term]  # an alias, since a compiler can't follow a subscript in the head of an inner function

Terms = Callable[[int, int], TermList]
"""The terms of rows [start, stop); what they share (masks) is made once here."""


def graph_rows(
    embeddings: Tensor, references: Tensor | None, terms: Terms, stream: Stream, grids: Grids | None
) -> Tensor:
    """Return (batch, outputs): the sum of the terms for each row."""
    sides = Sides(embeddings, references, stream, grids)
    rows, other_rows = sides.working_rows()
    length, other_length = (grid.length if stream.normalize else None for grid in (sides.left, sides.right))
    left = _ComparedRows.apply(embeddings, rows, sides.left.square, length)
    right = (
        left if references is None else _ComparedRows.apply(references, other_rows, sides.right.square, other_length)
    )
    spans = sides.spans()

    def reduce(top: int, bottom: int, left: Any, right: Any) -> Tensor:
        selection = slice(top, bottom) if stream.order is None else stream.order[top:bottom]
        block = sides.block(top, bottom)
        return _sum_terms(terms(top, bottom), block, [part[selection] for part in left], right, stream)

    if len(spans) == 1:
        return reduce(*spans[0], left, right)
    return torch.cat([checkpoint(reduce, *span, left, right, use_reentrant=False) for span in spans])  # pyright: ignore[reportArgumentType]


def _sum_terms(terms: TermList, values: Tensor, left: Sequence[Tensor], right: Any, stream: Stream) -> Tensor:
    (rows, square), (others, other_square) = left, right
    if stream.normalize:
        one = values.new_ones(())
        square, other_square = one.expand(len(values), 1), one.expand(values.shape[1])
    else:
        square = square[:, None]
    block: Any = _ExactBlock.apply(rows, square, others, other_square, values, stream.squared, stream.normalize)
    return add_terms(terms, (block, square, other_square), stream)


def add_terms(terms: TermList, inputs: tuple[Tensor, Tensor, Tensor], stream: Stream) -> Tensor:
    """Return the sum of the terms: (rows, outputs)."""
    values = inputs[0]
    if not terms:
        return values.new_zeros(len(values) // stream.multiple, stream.outputs)
    total = terms[0](*inputs)
    for term in terms[1:]:
        total = total + term(*inputs)
    return total


class _ComparedRows(torch.autograd.Function):
    """Rows as they are compared and their squares, with the gradient of the rows as given."""

    @staticmethod
    def forward(ctx: Any, source: Tensor, rows: Tensor, square: Tensor, length: Tensor | None) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(rows, length)
        ctx.dtype = source.dtype
        return rows.clone(), square.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows, length = ctx.saved_tensors
        inverse = None if length is None else inverse_lengths(length, rows.dtype)
        grad = of_given_rows(grads[0].clone(), rows, None if length is not None else grads[1], inverse)
        return grad.to(ctx.dtype), None, None, None


class _ExactBlock(torch.autograd.Function):
    """Known values of a block, with the gradient of a product of rows."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        square: Tensor,
        others: Tensor,
        other_square: Tensor,
        values: Tensor,
        squared: bool,
        unit: bool,
    ) -> Tensor:
        ctx.save_for_backward(rows, others)
        ctx.squared, ctx.unit = squared, unit
        return values.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows, others = ctx.saved_tensors
        row = column = None
        if ctx.squared and not ctx.unit:  # |a|^2 + |x|^2 - 2 a.x
            row, column = grads[0].sum(1, keepdim=True), grads[0].sum(0)
        grad = (grads[0] * -2.0 if ctx.squared else grads[0]).to(rows.dtype)
        with full_precision(rows.device):
            return grad @ others, row, grad.T @ rows, column, None, None, None
