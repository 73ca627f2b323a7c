"""A loss that is a function of whole similarity rows, evaluated a few rows at a time.

    out[i] = sum over terms of term(block of row i, ...)

Naive program: similarity = embeddings @ references.T, then the terms on all of it, which keeps several
(batch, references) tensors. Here a block of rows is made, the terms reduce it to a few numbers per
row, and backward makes the same block again and differentiates the terms on it, one term at a
time. The result costs one product more than the naive program. A compiled graph does the same in `row_graph`.

A block holds similarities or squared distances, exact on the grid (`exact_blocks`) and then rounded to the type of the
terms, so that a pair meets a threshold or a root in the same way wherever its block was cut. The gradient of unit rows
becomes that of the given rows in working precision, and is rounded to their type once.

Memory: the scratch, and both sides on the grid; kept for backward, the inputs by reference and nothing else.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from shadowmetric.ops.exact_blocks import Grids, Sides, Stream
from shadowmetric.ops.once import refuse_second_derivative
from shadowmetric.ops.precision import full_precision
from shadowmetric.ops.row_gradients import of_given_rows
from shadowmetric.ops.row_graph import Term, TermList, Terms, add_terms, graph_rows
from shadowmetric.types import Embeddings, References


def row_stream(
    embeddings: Embeddings, references: References | None, terms: Terms, stream: Stream, grids: Grids | None = None
) -> Tensor:
    """Return (batch, outputs): the sum of the terms for each row, differentiable in both; None for the batch itself.

    It is in the type that the terms compute in: float64 for rows as they are, and where the stream says so.
    grids: both sides on the grid, if they are known.
    """
    if torch.compiler.is_compiling():
        return graph_rows(embeddings, references, terms, stream, grids)
    return _RowStream.apply(embeddings, references, terms, stream, grids)  # pyright: ignore[reportReturnType]


class _RowStream(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, embeddings: Tensor, references: Tensor | None, terms: Terms, stream: Stream, grids: Grids | None
    ) -> Tensor:
        ctx.save_for_backward(embeddings, references)
        ctx.terms, ctx.stream = terms, stream
        sides, out = Sides(embeddings, references, stream, grids), []
        square, other_square = sides.squares()
        for top, bottom, values in sides.blocks():
            inputs = values, square[top:bottom], other_square
            out.append(add_terms(terms(top, bottom), inputs, stream))
        if not out:
            return square.new_zeros(0, stream.outputs)
        return out[0] if len(out) == 1 else torch.cat(out)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        embeddings, references = ctx.saved_tensors
        with full_precision(embeddings.device):
            sides = Sides(embeddings, references, ctx.stream)
            gradients = _Gradients(sides, references is None, ctx.needs_input_grad[:2])
            square, other_square = sides.squares()
            for top, bottom, values in sides.blocks():
                inputs = values, square[top:bottom], other_square
                here = slice(top // ctx.stream.multiple, bottom // ctx.stream.multiple)
                found = _differentiate(ctx.terms(top, bottom), inputs, grads[0][here], unit=ctx.stream.normalize)
                gradients.add(slice(top, bottom), *found)
            return *gradients.finish(), None, None, None


def _differentiate(terms: TermList, inputs: Sequence[Tensor], grad_out: Tensor, *, unit: bool) -> list[Tensor | None]:
    """Return the gradients of the sum of terms with respect to their inputs; squares of unit rows have none."""
    totals: list[Tensor | None] = [None] * len(inputs)
    for term in terms:
        leaves = [tensor.detach().requires_grad_() for tensor in inputs[: 1 if unit else 3]]
        with torch.enable_grad():
            out = term(*leaves, *inputs[len(leaves) :])
        if not out.requires_grad:
            continue
        grads = torch.autograd.grad(out, leaves, grad_out, allow_unused=True)
        for number, grad in enumerate(grads):
            total = totals[number]
            totals[number] = grad if total is None else total if grad is None else total.add_(grad)
    return totals


class _Gradients:
    """Gradients of both sides, from those of blocks: weights times the other side's rows, and times its own."""

    def __init__(self, sides: Sides, own: bool, needed: Sequence[bool]):
        self.sides, self.own = sides, own
        self.rows = sides.working_rows()
        self.alpha = -2.0 if sides.stream.squared else 1.0  # of a squared distance the slope by the dot product
        wanted = needed[0], needed[0] if own else needed[1]
        first = torch.zeros_like(self.rows[0]) if wanted[0] else None
        self.grads = [first, first if own else torch.zeros_like(self.rows[1]) if wanted[1] else None]
        self.along: list[Tensor | None] = [None, None]
        if not sides.stream.normalize:
            self.along = [torch.zeros_like(grid.square) for grid in (sides.left, sides.right)]

    def add(self, here: slice, grad: Tensor | None, grad_square: Tensor | None, grad_other: Tensor | None) -> None:
        """Add the gradients of a block, of the squares of its rows and of those of its columns."""
        order = self.sides.stream.order
        chosen = None if order is None else order[here]
        if grad is not None and self.sides.stream.squared and not self.sides.stream.normalize:
            self._add_along(here, chosen, grad.sum(1, keepdim=True), grad.sum(0))  # |a|^2 + |x|^2 - 2 a.x
        self._add_along(here, chosen, grad_square, grad_other)
        if grad is not None:
            self._multiply(here, chosen, grad.to(self.sides.working))

    def _add_along(self, here: slice, chosen: Tensor | None, row: Tensor | None, column: Tensor | None) -> None:
        along, other = self.along
        if along is not None and row is not None:
            if chosen is None:
                along[here] += row[:, 0]
            else:
                along.index_put_((chosen,), row[:, 0], accumulate=True)
        if other is not None and column is not None:
            other += column

    def _multiply(self, here: slice, chosen: Tensor | None, grad: Tensor) -> None:
        """Add the products of a block's gradient with the rows of both sides."""
        (left, right), (first, second) = self.rows, self.grads
        if first is not None and chosen is None:
            first[here].addmm_(grad, right, alpha=self.alpha)
        elif first is not None and chosen is not None:
            first.index_add_(0, chosen, grad @ right, alpha=self.alpha)
        if second is not None:
            second.addmm_(grad.T, left[here if chosen is None else chosen], alpha=self.alpha)

    def finish(self) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of embeddings and references."""
        grids, sources, along = (self.sides.left, self.sides.right), self.sides.sources, self.along
        if self.own and along[0] is not None and along[1] is not None:
            along[0] += along[1]
        first, second = (
            None
            if grad is None
            else of_given_rows(grad, rows, total, grid.length if self.sides.stream.normalize else None).to(source.dtype)
            for grad, rows, total, grid, source in zip(
                self.grads[: 1 if self.own else 2] + [None] * self.own, self.rows, along, grids, sources, strict=True
            )
        )
        return first, second
