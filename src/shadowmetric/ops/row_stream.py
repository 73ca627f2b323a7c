"""A loss that is a function of whole similarity rows, evaluated a few rows at a time.

    out[i] = sum over terms of term(block of row i, ...)

Naive program: similarity = embeddings @ references.T, then the terms on all of it, which keeps several
(batch, references) tensors. Here a block of rows is made, the terms reduce it to a few numbers per
row, and backward makes the same block again and differentiates the terms on it, one term at a
time. The result costs one product more than the naive program. A compiled graph does the same in `row_graph`.

A block holds similarities or squared distances, exact on the grid (`exact_blocks`) and then rounded to the type of the
terms, so that a pair meets a threshold or a root in the same way wherever its block was cut. The gradient of unit rows
becomes that of the given rows in working precision, and is rounded to their type once.

Memory: the scratch, and both sides on the grid; kept for backward, the inputs by reference, two float64 of each row
that save calls, and of a batch of at most 2^14 similarities, with one output and unit rows, its slopes: at most 64 KiB
that save the second product.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from shadowmetric.ops.exact_blocks import Grids, Sides, Stream
from shadowmetric.ops.memory import KEPT_SLOPES
from shadowmetric.ops.once import refuse_second_derivative
from shadowmetric.ops.precision import full_precision
from shadowmetric.ops.row_gradients import inverse_lengths, of_given_rows
from shadowmetric.ops.row_graph import Term, TermList, Terms, add_terms, graph_rows
from shadowmetric.ops.rows import working_dtype
from shadowmetric.types import Embeddings, References

__all__ = ["Stream", "Term", "TermList", "Terms", "row_stream"]


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
        ctx.stream, ctx.terms = stream, terms
        sides, out = Sides(embeddings, references, stream, grids), []
        square, other_square = sides.squares()
        ctx.small = _is_small(sides) and any(ctx.needs_input_grad)
        if ctx.small:
            return _keep_slopes(ctx, references, sides, (square, other_square))
        compared = sides.grids[: 1 if references is None else 2]
        known = (part for grid in compared for part in (grid.square, grid.length))
        ctx.save_for_backward(embeddings, references, *known)
        for top, bottom, values in sides.blocks():
            inputs = values, square[top:bottom], other_square
            out.append(add_terms(terms(top, bottom), inputs, stream))
        if not out:
            return square.new_zeros(0, stream.outputs)
        return out[0] if len(out) == 1 else torch.cat(out)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        embeddings, references, *kept = ctx.saved_tensors
        own, needed, stream = references is None, ctx.needs_input_grad[:2], ctx.stream
        with full_precision(embeddings.device):
            if ctx.small:
                gradients = Gradients(_again(embeddings, references, kept[1:]), stream, own, needed)
                gradients.add(slice(0, len(embeddings)), kept[0] * grads[0].to(kept[0].dtype), None, None)
                return *gradients.finish(), None, None, None
            sides = Sides(embeddings, references, stream, known=list(zip(kept[::2], kept[1::2], strict=True)))
            gradients = Gradients(compared_sides(sides), stream, own, needed)
            square, other_square = sides.squares()
            for top, bottom, values in sides.blocks():
                inputs = values, square[top:bottom], other_square
                here = slice(top // stream.multiple, bottom // stream.multiple)
                slopes = _differentiate(ctx.terms(top, bottom), inputs, grads[0][here], unit=stream.normalize)
                gradients.add(slice(top, bottom), *slopes)
            return *gradients.finish(), None, None, None


def _is_small(sides: Sides) -> bool:
    """Return whether one block is all, and its slopes are few enough to be kept: fewer calls than to make it again."""
    stream, entries = sides.stream, len(sides) * len(sides.right)
    streamed = stream.normalize and stream.order is None and stream.outputs == 1 and not sides.finer
    return streamed and entries <= KEPT_SLOPES and len(sides.spans()) == 1


def _keep_slopes(ctx: Any, references: Tensor | None, sides: Sides, squares: tuple[Tensor, Tensor]) -> Tensor:
    """Return the output of the only block, and keep the slopes of each row's output by its block."""
    ((_, stop, values),) = sides.blocks()
    values.requires_grad_()
    with torch.enable_grad():
        out = add_terms(ctx.terms(0, stop), (values, *squares), sides.stream)
    slopes = (
        torch.autograd.grad(out, values, torch.ones_like(out))[0] if out.requires_grad else torch.zeros_like(values)
    )
    ctx.save_for_backward(sides.sources[0], references, slopes, sides.left.length, sides.right.length)
    ctx.terms = None
    return out.detach()


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


class _Compared(NamedTuple):
    """Both sides as they are compared, in working precision; the inverse lengths of unit rows; the rows as given."""

    rows: tuple[Tensor, Tensor]
    inverse: tuple[Tensor, Tensor] | None
    sources: tuple[Tensor, Tensor]


def compared_sides(sides: Sides) -> _Compared:
    """Return both sides from the grid."""
    if not sides.stream.normalize:
        return _Compared(sides.working_rows(), None, sides.sources)
    left = inverse_lengths(sides.left.length, sides.working)
    right = left if sides.right is sides.left else inverse_lengths(sides.right.length, sides.working)
    return _Compared(sides.working_rows(), (left, right), sides.sources)


def _again(embeddings: Tensor, references: Tensor | None, lengths: Sequence[Tensor]) -> _Compared:
    """Return both sides of unit rows from their lengths: the digits that the grid took from them do not matter here."""
    others = embeddings if references is None else references
    dtype = working_dtype(embeddings.dtype, others.dtype)
    inverse = inverse_lengths(lengths[0], dtype)
    rows = embeddings.to(dtype) * inverse[:, None]
    if references is None:
        return _Compared((rows, rows), (inverse, inverse), (embeddings, embeddings))
    other_inverse = inverse_lengths(lengths[1], dtype)
    other_rows = references.to(dtype) * other_inverse[:, None]
    return _Compared((rows, other_rows), (inverse, other_inverse), (embeddings, references))


class Gradients:
    """Gradients of both sides, from those of blocks: weights times the other side's rows, and times its own."""

    def __init__(self, compared: _Compared, stream: Stream, own: bool, needed: Sequence[bool]):
        self.compared, self.stream, self.own, self.rows = compared, stream, own, compared.rows
        self.alpha = -2.0 if stream.squared else 1.0  # of a squared distance the slope by the dot product
        wanted = needed[0], needed[0] if own else needed[1]
        first = torch.zeros_like(self.rows[0]) if wanted[0] else None
        self.grads = [first, first if own else torch.zeros_like(self.rows[1]) if wanted[1] else None]
        self.along: list[Tensor | None] = [None, None]
        if not stream.normalize:
            self.along = [rows.new_zeros(len(rows), dtype=torch.float64) for rows in self.rows]

    def add(self, here: slice, grad: Tensor | None, grad_square: Tensor | None, grad_other: Tensor | None) -> None:
        """Add the gradients of a block, of the squares of its rows and of those of its columns."""
        order, stream = self.stream.order, self.stream
        indices = None if order is None else order[here]
        if grad is not None and stream.squared and not stream.normalize:
            self._add_along(here, indices, grad.sum(1, keepdim=True), grad.sum(0))  # |a|^2 + |x|^2 - 2 a.x
        self._add_along(here, indices, grad_square, grad_other)
        if grad is not None:
            self._multiply(here, indices, grad.to(self.rows[0].dtype))

    def _add_along(self, here: slice, indices: Tensor | None, row: Tensor | None, column: Tensor | None) -> None:
        along, other = self.along
        if along is not None and row is not None:
            if indices is None:
                along[here] += row[:, 0]
            else:
                along.index_put_((indices,), row[:, 0], accumulate=True)
        if other is not None and column is not None:
            other += column

    def _multiply(self, here: slice, indices: Tensor | None, grad: Tensor) -> None:
        """Add the products of a block's gradient with the rows of both sides."""
        (left, right), (first, second) = self.rows, self.grads
        if first is not None and indices is None:
            first[here].addmm_(grad, right, alpha=self.alpha)
        elif first is not None and indices is not None:
            first.index_add_(0, indices, grad @ right, alpha=self.alpha)
        if second is not None:
            second.addmm_(grad.T, left[here if indices is None else indices], alpha=self.alpha)

    def finish(self) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of embeddings and references."""
        first, second = self.grads
        if self.own:
            if self.along[0] is not None and self.along[1] is not None:
                self.along[0] += self.along[1]
            second = None
        return self._of_given(first, 0), self._of_given(second, 1)

    def _of_given(self, grad: Tensor | None, side: int) -> Tensor | None:
        """Return the gradient of one side's rows as they were given."""
        if grad is None:
            return None
        inverse = None if self.compared.inverse is None else self.compared.inverse[side]
        gradient = of_given_rows(grad, self.rows[side], self.along[side], inverse)
        return gradient.to(self.compared.sources[side].dtype)
