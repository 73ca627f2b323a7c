"""A sum over a few pairs of each row, all rows with as many places: shapes that do not depend on labels.

    total = reduce(dot, |a|^2, |x|^2)     dot[i, k] of a = embeddings[i] and x = references[other[i, k]]

of unit rows (dot is then the cosine, and both squares are 1) or of rows as they are. The dot products are known from
mining, exactly; what this adds is the gradient: a sparse matrix of the pairs' slopes times the rows of both sides. No
host read, no atomics: the sparse product is summed for a row in the order of its places, and for a reference in the
order of the rows that name it. On a CPU a small matrix is simply filled.

Naive program: reduce((a[:, None] * x[other]).sum(2), ...), which keeps (rows, places, dim). Eagerly the slopes are
taken at once, so that a pair keeps a row number and a slope; a compiled graph keeps what its compiler chooses.

Memory: kept for backward, one int64 and one number for each place (three for rows as they are), one float64 for each
unit row, and the rows by reference; working, the gradients, unit rows in working precision, a few numbers per place, or
a matrix of at most 2^20 numbers.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from shadowmetric.ops.once import refuse_second_derivative
from shadowmetric.ops.precision import full_precision
from shadowmetric.ops.row_gradients import inverse_lengths
from shadowmetric.ops.rows import working_dtype

FILLED = 2**20  # entries of a matrix that a CPU fills rather than sort the pairs

Reduce = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""(dots (rows, places), |a|^2, |x|^2), which broadcast -> the total, and a count without gradient."""


class SlotPairs(NamedTuple):
    """The pairs of each row, and what is known of them."""

    other: Tensor  # (rows, places) row numbers of the other side
    dots: Tensor  # (rows, places) float64
    squares: tuple[Tensor, Tensor]  # (rows, 1) and (rows, places) of rows as they are; both 1 for unit rows
    lengths: tuple[Tensor, Tensor] | None  # of both sides, for unit rows


def slot_totals(embeddings: Tensor, references: Tensor | None, pairs: SlotPairs, reduce: Reduce) -> tuple[Tensor, ...]:
    """Return the total, with a gradient, and the count."""
    if not torch.compiler.is_compiling():
        return _SlotTotals.apply(embeddings, references, pairs, reduce)  # pyright: ignore[reportReturnType]
    length, other_length = _lengths(pairs, own=references is None)
    if pairs.lengths is None:
        known: Any = _SlotDots.apply(embeddings, references, pairs.other, None, None, pairs.dots, *pairs.squares)
        return reduce(*known)
    dots: Any = _SlotDots.apply(embeddings, references, pairs.other, length, other_length, pairs.dots)
    return reduce(dots, *pairs.squares)


class _SlotTotals(torch.autograd.Function):
    """The total with its slopes, which are all that backward needs of the pairs."""

    @staticmethod
    def forward(ctx: Any, embeddings: Tensor, references: Tensor | None, pairs: SlotPairs, reduce: Reduce) -> Any:
        inputs = (pairs.dots, *pairs.squares)
        if not any(ctx.needs_input_grad):
            return reduce(*inputs)
        others = embeddings if references is None else references
        leaves = [tensor.requires_grad_() for tensor in inputs[: 3 if pairs.lengths is None else 1]]
        with torch.enable_grad():
            total, count = reduce(*leaves, *inputs[len(leaves) :])
        slopes: Any = torch.autograd.grad(total, leaves, materialize_grads=True)
        dtype = working_dtype(embeddings.dtype, others.dtype)
        ctx.own = references is None
        ctx.save_for_backward(
            embeddings, others, pairs.other, *_lengths(pairs, own=ctx.own), *(slope.to(dtype) for slope in slopes)
        )
        ctx.mark_non_differentiable(count)
        return total.detach(), count

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        embeddings, others, other, length, other_length, *slopes = ctx.saved_tensors
        slopes = [grads[0] * slope for slope in slopes]
        first, second = _gradients(ctx, embeddings, others, other, (length, other_length), slopes)
        return first, second, None, None


class _SlotDots(torch.autograd.Function):
    """The same for compiled graphs: dot products, and squares of rows as they are, with the gradient of the rows."""

    @staticmethod
    def forward(
        ctx: Any,
        embeddings: Tensor,
        references: Tensor | None,
        other: Tensor,
        length: Tensor | None,
        other_length: Tensor | None,
        *known: Tensor,
    ) -> Any:
        others = embeddings if references is None else references
        ctx.own, ctx.known = references is None, len(known)
        ctx.save_for_backward(embeddings, others, other, length, other_length)
        return known[0].clone() if len(known) == 1 else tuple(values.clone() for values in known)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        embeddings, others, other, length, other_length = ctx.saved_tensors
        dtype = working_dtype(embeddings.dtype, others.dtype)
        slopes = [grad.to(dtype) for grad in grads]
        first, second = _gradients(ctx, embeddings, others, other, (length, other_length), slopes)
        return first, second, *[None] * (3 + ctx.known)


def _lengths(pairs: SlotPairs, *, own: bool) -> tuple[Tensor | None, Tensor | None]:
    """Return the lengths of both sides, once if they are one."""
    if pairs.lengths is None:
        return None, None
    return pairs.lengths[0], None if own else pairs.lengths[1]


def _gradients(
    ctx: Any, embeddings: Tensor, others: Tensor, other: Tensor, lengths: tuple, slopes: list[Tensor]
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of embeddings and references from the slopes of dots, and of squares if there are any."""
    own, dtype = ctx.own, slopes[0].dtype
    with full_precision(embeddings.device):
        left = _Side(embeddings, lengths[0], dtype)
        right = left if own else _Side(others, lengths[1], dtype)
        wanted = ctx.needs_input_grad[0], ctx.needs_input_grad[0 if own else 1]
        products = _Products(other, right.rows.shape[0], own and left.scale is not None)
        first, second = products.multiply(slopes[0], left.rows, right.rows, wanted)
        if len(slopes) == 3:
            first = None if first is None else first.addcmul_(slopes[1], left.rows, value=2)
            along = 2 * products.sum_by_reference(slopes[2])
            second = None if second is None else second.addcmul_(along, right.rows)
        if own:
            return left.gradient(first if second is None or first is None else first.add_(second)), None
        return left.gradient(first), right.gradient(second)


class _Side:
    """Rows as they are compared, in working precision; of unit rows also the inverse of their lengths."""

    def __init__(self, source: Tensor, length: Tensor | None, dtype: torch.dtype):
        self.source = source
        self.scale = None if length is None else inverse_lengths(length, dtype)[:, None]
        self.rows = source.to(dtype) if self.scale is None else source.to(dtype) * self.scale

    def gradient(self, grad: Tensor | None) -> Tensor | None:
        """Return the gradient of the rows as given: of unit rows, what lies along a row does not count."""
        if grad is None:
            return None
        if self.scale is not None:
            along = (grad * self.rows).sum(1, keepdim=True)
            grad = grad.addcmul_(along, self.rows, value=-1).mul_(self.scale)
        return grad.to(self.source.dtype)


class _Products:
    """Products of the sparse matrix of all pairs, and of its transpose, with rows."""

    def __init__(self, other: Tensor, references: int, joined: bool):
        self.other, self.references = other, references
        self.joined = joined  # both products may be added up
        self.filled = other.device.type == "cpu" and len(other) * references <= FILLED

    def multiply(
        self, weight: Tensor, rows: Tensor, other_rows: Tensor, wanted: tuple[bool, bool]
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return weight @ other_rows and weight.T @ rows, or if they are joined their sum and nothing."""
        if self.filled:
            matrix = self._fill(weight)
            if self.joined:
                return torch.mm(matrix + matrix.T, rows), None
            return (
                torch.mm(matrix, other_rows) if wanted[0] else None,
                torch.mm(matrix.T, rows) if wanted[1] else None,
            )
        return (
            _bag(self.other.reshape(-1), other_rows, self._begins(len(self.other)), weight) if wanted[0] else None,
            self._by_reference(rows, weight, self.other.shape[1]) if wanted[1] else None,
        )

    def sum_by_reference(self, weight: Tensor) -> Tensor:
        """Return the sum of the weights of each reference: (references, 1)."""
        if self.filled:
            return self._fill(weight).sum(0)[:, None]
        return self._by_reference(weight.reshape(-1, 1), torch.ones_like(weight), 1)

    def _fill(self, weight: Tensor) -> Tensor:
        matrix = weight.new_zeros(len(self.other), self.references)
        return matrix.scatter_add_(1, self.other, weight)

    def _begins(self, rows: int) -> Tensor:
        places = self.other.shape[1]
        return torch.arange(0, rows * places, places, device=self.other.device)

    def _by_reference(self, rows: Tensor, weight: Tensor, places: int) -> Tensor:
        """Return for each reference the sum of weight times row over the pairs that name it, in their order."""
        ranked, order = torch.sort(self.other.reshape(-1), stable=True)
        begins = torch.searchsorted(ranked, torch.arange(self.references, device=rows.device))
        return _bag(order // places, rows, begins, weight.reshape(-1).index_select(0, order))


def _bag(numbers: Tensor, rows: Tensor, begins: Tensor, weight: Tensor) -> Tensor:
    return embedding_bag(numbers, rows, begins, mode="sum", per_sample_weights=weight.reshape(-1))
