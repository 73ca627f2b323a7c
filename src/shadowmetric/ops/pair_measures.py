"""What chosen row pairs measure, keeping row numbers and a few scalars for backward.

    value[i] = measure(dot, |a|^2, |x|^2)     a = embeddings[anchor[i]], x = references[other[i]]

of unit rows (dot is then the cosine, and both squares are 1) or of rows as they are. Dot products and squares are
exact (`grid_rows`) and the measure is taken in float64, so that equal rows measure the same, a hinge, a root or an
absolute value meets its kink in the same pairs on every machine, and differences of long rows do not cancel.

Naive program: measure((a * x).sum(1), ...), which keeps two (pairs, dim) tensors. Here the measure's slopes are taken
at once, a few numbers per pair, and backward reads the rows again: its gradient is a sparse matrix of the pairs'
gradients times the rows, done by `embedding_bag`, a weighted sum of rows for each row (5 to 15 times as fast as
index_add here, and with a fixed order of summation). It is summed whole in float32 or wider and rounded to the type of
the rows once: the parts along a row and across it nearly cancel where rows are close, and half types lose them.

Memory: kept for backward, two int64 and two or three numbers per pair, one float64 per row, and the rows by reference;
working, 2 MiB forward, and backward the gradient itself, a few numbers per pair, and for half types a float32 copy of
the rows.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from shadowmetric.ops.grid_rows import GridRows, pair_dots_of, pair_squared
from shadowmetric.ops.once import refuse_second_derivative
from shadowmetric.ops.precision import full_precision
from shadowmetric.ops.row_gradients import add_along, inverse_lengths
from shadowmetric.ops.rows import working_dtype
from shadowmetric.types import Embeddings, PairValues, References, RowNumbers

Measure = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(dot, |a|^2, |x|^2), which broadcast -> what is compared."""


def pair_measures(
    embeddings: Embeddings,
    references: References | None,
    anchor: RowNumbers,
    other: RowNumbers,
    measure: Measure,
    grids: tuple[GridRows, GridRows],
    *,
    squared: Tensor | None = None,
) -> PairValues:
    """Return the measure of each pair in working precision; without references, of embeddings alone.

    grids: both sides on the grid, as unit rows or as they are. squared: the squared distances of unit rows, if known.
    """
    pairs = _Chosen(anchor, other, measure, grids, squared)
    if torch.compiler.is_compiling():
        return _graph_measures(embeddings, references, pairs)
    return _PairMeasures.apply(embeddings, references, pairs)  # pyright: ignore[reportReturnType]


class _Chosen(NamedTuple):
    anchor: Tensor
    other: Tensor
    measure: Measure
    grids: tuple[GridRows, GridRows]
    squared: Tensor | None

    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return dot, |a|^2 and |x|^2 of each pair; of unit rows the cosine, 1 and 1."""
        left, right = self.grids
        if not left.normalize:
            dots = pair_dots_of(left, right, self.anchor, self.other)
            return dots, left.square[self.anchor], right.square[self.other]
        squared = pair_squared(left, right, self.anchor, self.other) if self.squared is None else self.squared
        one = torch.ones((), dtype=squared.dtype, device=squared.device)
        return 1 - squared / 2, one, one


class _PairMeasures(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, embeddings: Tensor, references: Tensor | None, pairs: _Chosen) -> Tensor:
        others = embeddings if references is None else references
        inputs, unit = pairs.inputs(), pairs.grids[0].normalize
        dtype = working_dtype(embeddings.dtype, others.dtype)
        if not any(ctx.needs_input_grad):
            return pairs.measure(*inputs).expand(len(pairs.anchor)).to(dtype)
        leaves = [tensor.requires_grad_() for tensor in (inputs[:1] if unit else inputs)]
        with torch.enable_grad():
            value = pairs.measure(*leaves, *inputs[len(leaves) :])
        slopes = torch.autograd.grad(value, leaves, torch.ones_like(value), allow_unused=True)
        slopes = [leaf.new_zeros(()) if slope is None else slope for leaf, slope in zip(leaves, slopes, strict=True)]
        if unit:
            slopes.append(slopes[0] * inputs[0].detach())
        lengths = (grid.length for grid in pairs.grids[: 1 if references is None else 2]) if unit else ()
        ctx.unit, ctx.own = unit, references is None
        slopes = (slope.expand(len(value)).to(dtype) for slope in slopes)
        ctx.save_for_backward(embeddings, others, pairs.anchor, pairs.other, *slopes, *lengths)
        return value.detach().to(dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        embeddings, others, anchor, other, *rest = ctx.saved_tensors
        across, *along = (grads[0] * slope for slope in rest[: 2 if ctx.unit else 3])
        along = [-along[0]] * 2 if ctx.unit else [2 * part for part in along]
        lengths = rest[2:] * (2 if ctx.own else 1) if ctx.unit else (None, None)
        sides = (embeddings, anchor, lengths[0], along[0]), (others, other, lengths[1], along[1])
        return *_gradients(ctx, *sides, across), None


def _graph_measures(embeddings: Tensor, references: Tensor | None, pairs: _Chosen) -> Tensor:
    """Return the measures by operations that a compiler can follow; it chooses what is kept."""
    others = embeddings if references is None else references
    left, right = pairs.grids
    inputs = pairs.inputs()
    known = inputs[:1] if left.normalize else inputs  # the squares of unit rows are 1
    lengths = left.length if left.normalize else None, right.length if left.normalize and right is not left else None
    inputs: Any = (
        *_KnownPairs.apply(embeddings, references, pairs.anchor, pairs.other, *lengths, *known),
        *inputs[len(known) :],
    )
    values = pairs.measure(*inputs).expand(len(pairs.anchor))
    return values.to(working_dtype(embeddings.dtype, others.dtype))


class _KnownPairs(torch.autograd.Function):
    """Known dot products and squares of pairs, with the gradient of their rows."""

    @staticmethod
    def forward(
        ctx: Any,
        embeddings: Tensor,
        references: Tensor | None,
        anchor: Tensor,
        other: Tensor,
        length: Tensor | None,
        other_length: Tensor | None,
        *inputs: Tensor,
    ) -> tuple[Tensor, ...]:
        others = embeddings if references is None else references
        ctx.own, ctx.unit = references is None, length is not None
        ctx.save_for_backward(embeddings, others, anchor, other, length, other_length, inputs[0])
        return tuple(tensor.clone() for tensor in inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        embeddings, others, anchor, other, length, other_length, dots = ctx.saved_tensors
        other_length = length if ctx.own else other_length
        dtype = working_dtype(embeddings.dtype, others.dtype)
        along = [-grads[0] * dots] * 2 if ctx.unit else [2 * grad for grad in grads[1:]]
        sides = (embeddings, anchor, length, along[0].to(dtype)), (others, other, other_length, along[1].to(dtype))
        return *_gradients(ctx, *sides, grads[0].to(dtype)), *[None] * (4 + len(grads))


_Side = tuple[Tensor, Tensor, Tensor | None, Tensor]


def _gradients(ctx: Any, left: _Side, right: _Side, across: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of embeddings and references; without references both sides are the embeddings."""
    wanted = ctx.needs_input_grad[0], ctx.needs_input_grad[0 if ctx.own else 1]
    with full_precision(across.device):
        first = _gradient(left, right, across) if wanted[0] else None
        second = _gradient(right, left, across) if wanted[1] else None
    if ctx.own and first is not None and second is not None:
        first, second = first.add_(second), None
    return None if first is None else first.to(left[0].dtype), None if second is None else second.to(right[0].dtype)


def _gradient(mine: _Side, yours: _Side, across: Tensor) -> Tensor:
    """Return the gradient of one side's rows: weights times the other side's rows, and weights times its own."""
    rows, indices, length, along = mine
    others, other_indices, other_length, _ = yours
    weight = across if other_length is None else across * inverse_lengths(other_length, across.dtype)[other_indices]
    grad = weighted_sums(others, indices, other_indices, weight, len(rows))
    total = torch.zeros(len(rows), dtype=across.dtype, device=rows.device).index_add_(0, indices, along)
    return add_along(grad, rows, total, length)


def weighted_sums(rows: Tensor, into: Tensor, indices: Tensor, weight: Tensor, size: int) -> Tensor:
    """Return out (size, dim) with out[into[i]] += weight[i] * rows[chosen[i]], summed in the type of the weights."""
    ranked, order = torch.sort(into, stable=True)
    begins = torch.searchsorted(ranked, torch.arange(size, device=into.device))
    rows = rows.to(weight.dtype)
    return embedding_bag(indices[order], rows, begins, mode="sum", per_sample_weights=weight[order])
