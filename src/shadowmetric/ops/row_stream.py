"""A loss that is a function of whole similarity rows, evaluated a few rows at a time.

    out[i] = sum over terms of term(block of row i, ...)

Naive program: similarity = embeddings @ references.T, then the terms on all of it, which keeps several
(batch, references) tensors. Here a block of rows is made, the terms reduce it to a few numbers per
row, and backward makes the same block again and differentiates the terms on it, one term at a
time. The result costs one product more than the naive program.

A block holds similarities or squared distances, exact on the grid (`grid_rows`) and then rounded to the type of the
terms, so that a pair meets a threshold or a root in the same way wherever its block was cut. The gradient of unit rows
becomes that of the given rows in working precision, and is rounded to their type once.

Memory: the scratch, and both sides on the grid; kept for backward, the inputs by reference and nothing else.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from shadowmetric.ops.grid_rows import GridRows, GridSide
from shadowmetric.ops.once import refuse_second_derivative
from shadowmetric.ops.row_gradients import add_along
from shadowmetric.ops.rows import working_dtype
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES, Block, whole_row_blocks
from shadowmetric.types import Embeddings, References

Term = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(block (rows, references), |row|^2 of each row (rows, 1), of each column (references,)) -> (rows, outputs)."""

Terms = Callable[[int, int], Sequence[Term]]
"""The terms of rows [start, stop); what they share (masks) is made once here."""


class Stream(NamedTuple):
    """How rows are streamed.

    normalize: unit rows; blocks of cosines, and squares of 1. Otherwise rows as they are: dot products.
    squared: blocks of squared distances instead.
    exact: the terms compute in float64; so they do for rows as they are, whose squares cancel.
    order: stream these rows of the embeddings instead, a multiple of `multiple` in each block, so that a term may
    combine neighbours.
    temporaries: how many tensors of the block's shape a term makes, forward and backward together.
    """

    normalize: bool
    squared: bool = False
    exact: bool = False
    order: Tensor | None = None
    multiple: int = 1
    outputs: int = 1
    temporaries: float = 8.0
    scratch_bytes: int = SCRATCH_BYTES


def row_stream(embeddings: Embeddings, references: References | None, terms: Terms, stream: Stream) -> Tensor:
    """Return (batch, outputs): the sum of the terms for each row, differentiable in both; None for the batch itself.

    It is in the type that the terms compute in: float64 for rows as they are, and where the stream says so.
    """
    return _RowStream.apply(embeddings, references, terms, stream)  # pyright: ignore[reportReturnType]


class _Sides:
    """Both sides on the grid, and the type that the terms compute in."""

    def __init__(self, embeddings: Tensor, references: Tensor | None, stream: Stream):
        others = embeddings if references is None else references
        working = working_dtype(embeddings.dtype, others.dtype)
        finer = not stream.normalize or working == torch.float64
        self.dtype = torch.float64 if finer or stream.exact else torch.float32
        self.left = GridRows(embeddings, normalize=stream.normalize, finer=finer)
        self.right = self.left if references is None else GridRows(others, normalize=stream.normalize, finer=finer)
        self.stream, self.order = stream, stream.order

    def squares(self, side: GridRows) -> Tensor:
        """Return |row|^2 of rows as they are, and 1 for unit rows."""
        return (torch.ones_like(side.square) if self.stream.normalize else side.square).to(self.dtype)

    def blocks(self) -> Iterator[Block]:
        """Yield blocks of whole rows, in the type of the terms."""
        stream = self.stream
        kind = "squared" if stream.squared else "cosines" if stream.normalize else "dots"
        half = self.dtype == torch.float32  # the terms' own type is half as wide as the exact block
        temporaries = stream.temporaries * 0.5 + 0.5 if half else stream.temporaries
        for block in whole_row_blocks(
            GridSide(self.left, self.order, blocks=kind),
            GridSide(self.right, blocks=kind),
            scratch_bytes=stream.scratch_bytes,
            temporaries=temporaries,
            multiple=stream.multiple,
        ):
            yield block._replace(values=block.values.to(self.dtype))


class _RowStream(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, embeddings: Tensor, references: Tensor | None, terms: Terms, stream: Stream) -> Tensor:
        ctx.save_for_backward(embeddings, references)
        ctx.terms, ctx.stream = terms, stream
        sides = _Sides(embeddings, references, stream)
        rows = len(embeddings if stream.order is None else stream.order)
        out = torch.zeros(rows, stream.outputs, dtype=sides.dtype, device=embeddings.device)
        square, other_square = sides.squares(sides.left), sides.squares(sides.right)
        square = square if stream.order is None else square[stream.order]
        for top, bottom, _, _, values in sides.blocks():
            for term in terms(top, bottom):
                out[top:bottom] += term(values, square[top:bottom, None], other_square)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        embeddings, references = ctx.saved_tensors
        sides = _Sides(embeddings, references, ctx.stream)
        found = _Gradients(sides, embeddings, references, ctx.needs_input_grad[:2])
        order = ctx.stream.order
        square, other_square = sides.squares(sides.left), sides.squares(sides.right)
        square = square if order is None else square[order]
        for top, bottom, _, _, values in sides.blocks():
            inputs = values, square[top:bottom, None], other_square
            totals = [torch.zeros_like(tensor) for tensor in inputs]
            for term in ctx.terms(top, bottom):
                here = _gradients(term, inputs, grads[0][top:bottom].to(sides.dtype))
                for total, grad in zip(totals, here, strict=True):
                    if grad is not None:
                        total += grad
            found.add(slice(top, bottom), values, *totals)
        return *found.finish(), None, None


def _gradients(term: Term, inputs: Sequence[Tensor], grad_out: Tensor) -> Sequence[Tensor | None]:
    """Return the gradient of one term with respect to its three inputs."""
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    with torch.enable_grad():
        out = term(*leaves)
    if not out.requires_grad:
        return [None] * len(leaves)
    return torch.autograd.grad(out, leaves, grad_out, allow_unused=True)


class _Gradients:
    """Gradients of both sides, from those of blocks: weights times the other side's rows, and times its own."""

    def __init__(self, sides: _Sides, embeddings: Tensor, references: Tensor | None, needed: Sequence[bool]):
        self.sides, self.embeddings, self.references = sides, embeddings, references
        self.others = embeddings if references is None else references
        self.dtype = working_dtype(embeddings.dtype, self.others.dtype)
        self.needed = needed[0], needed[1] or (references is None and needed[0])
        self.rows = [
            side.rows(source, self.dtype)
            for side, source in zip((sides.left, sides.right), (embeddings, self.others), strict=True)
        ]
        self.grads = [
            torch.zeros(rows.shape, dtype=self.dtype, device=rows.device) if wanted else None
            for rows, wanted in zip((embeddings, self.others), self.needed, strict=True)
        ]
        if references is None and self.needed[0]:
            self.grads[1] = self.grads[0]
        self.along = [
            torch.zeros(len(rows), dtype=sides.dtype, device=rows.device) for rows in (embeddings, self.others)
        ]

    def add(self, here: slice, values: Tensor, grad: Tensor, grad_square: Tensor, grad_other: Tensor) -> None:
        """Add the gradients of a block, of the squares of its rows and of those of its columns."""
        if self.sides.stream.squared:  # |a|^2 + |x|^2 - 2 a.x
            grad_square = grad_square + grad.sum(1, keepdim=True)
            grad_other = grad_other + grad.sum(0)
            values, grad = (1 - values / 2, grad.mul_(-2)) if self.sides.stream.normalize else (values, grad.mul_(-2))
        if self.sides.stream.normalize:
            slope = grad * values
            row, column = -slope.sum(1), -slope.sum(0)
        else:
            row, column = 2 * grad_square[:, 0], 2 * grad_other
        chosen = None if self.sides.order is None else self.sides.order[here]
        if chosen is None:
            self.along[0][here] += row
        else:
            self.along[0].index_add_(0, chosen, row)
        self.along[1] += column
        self._multiply(here, chosen, grad.to(self.dtype))

    def _multiply(self, here: slice, chosen: Tensor | None, grad: Tensor) -> None:
        """Add the products of a block's gradient with the rows of both sides."""
        left, right = self.rows
        if self.grads[0] is not None and chosen is None:
            self.grads[0][here].addmm_(grad, right)
        elif self.grads[0] is not None and chosen is not None:
            self.grads[0].index_add_(0, chosen, right.new_zeros(len(grad), right.shape[1]).addmm_(grad, right))
        if self.grads[1] is not None:
            self.grads[1].addmm_(grad.T, left[here if chosen is None else chosen])

    def finish(self) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of embeddings and references."""
        along = [total.to(self.dtype) for total in self.along]
        unit = self.sides.stream.normalize
        left, right = (side.length if unit else None for side in (self.sides.left, self.sides.right))
        if self.references is None:
            grad = self.grads[0]
            return None if grad is None else self._rounded(grad, self.embeddings, along[0] + along[1], left), None
        first, second = (
            None if grad is None else self._rounded(grad, rows, total, length)
            for grad, rows, total, length in zip(
                self.grads, (self.embeddings, self.references), along, (left, right), strict=True
            )
        )
        return first, second

    @staticmethod
    def _rounded(grad: Tensor, rows: Tensor, along: Tensor, length: Tensor | None) -> Tensor:
        return add_along(grad, rows, along, length).to(rows.dtype)
