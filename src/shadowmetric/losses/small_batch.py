"""A mined loss of a small batch of unit rows on a CPU: in slots, in numpy, and without autograd's slopes.

The meaning is that of `MinedLoss` in slots (`ops/slot_pairs`), and so are the bytes that are kept: for each place one
row number and one slope. What differs is the price of a call: numpy's are a third of torch's, and slopes are written
down (`losses/slopes`). Places are few, so the sparse matrix of slopes is filled.

Memory: kept for backward, one int64 and one number for each place; working, matrices of at most 2^16 numbers.
"""

from typing import Any

import numpy
import torch
from torch import Tensor

from shadowmetric.losses.slopes import Slopes
from shadowmetric.losses.sums import Sums
from shadowmetric.mining.checked_batch import CheckedBatch
from shadowmetric.mining.slots import SlotTriplets
from shadowmetric.ops.arrays import Array, is_on_host
from shadowmetric.ops.once import refuse_second_derivative
from shadowmetric.ops.precision import full_precision
from shadowmetric.ops.row_gradients import inverse_lengths
from shadowmetric.ops.rows import working_dtype

SMALL = 2**16  # places of the matrix; more are worth torch's threads


def is_small(batch: CheckedBatch) -> bool:
    """Return whether a batch is small enough to be summed up in numpy, and on a CPU."""
    return is_on_host(batch.labels) and batch.labels.shape[0] * batch.others.shape[0] <= SMALL


def small_sums(batch: CheckedBatch, mined: SlotTriplets, slopes: Slopes, margin: float, reduction: str) -> Sums:
    """Return the sums over the triplets of a small batch, mined in numpy on unit rows."""
    embeddings, references = batch.embeddings, batch.references
    dtype = working_dtype(embeddings.dtype, batch.others.dtype)
    mined = mined.to_arrays()
    real = mined.real
    closer, closer_slope = slopes.measure(numpy.where(real, mined.closer, 0.0))
    farther, farther_slope = slopes.measure(numpy.where(real, mined.farther, 0.0))
    kind = numpy.float64 if dtype == torch.float64 else numpy.float32  # a hinge meets its kink where torch's does
    value, slope = slopes.hinge(closer.astype(kind) - farther.astype(kind) + margin)
    value = value * real
    total = torch.tensor([float(value.sum())], dtype=dtype)
    counted = {"sum": False, "mean": real, "mean_nonzero": value > 0}[reduction]
    counts = torch.tensor([numpy.count_nonzero(counted)], dtype=dtype)
    if not torch.is_grad_enabled() or not (
        embeddings.requires_grad or (references is not None and references.requires_grad)
    ):
        return Sums(total, counts)
    slope = slope * real
    weight = numpy.concatenate([slope * closer_slope, -slope * farther_slope], 1)  # (rows, places)
    other = numpy.concatenate([mined.positive, numpy.broadcast_to(mined.negative, closer.shape)], 1)
    left, right = batch.grids(normalize=True)
    totals: Any = _SmallTotal.apply(
        embeddings, references, torch.from_numpy(other), torch.from_numpy(weight), left.length, right.length, total
    )
    return Sums(totals, counts)


class _SmallTotal(torch.autograd.Function):
    """A known total, with the gradient that the slopes of its pairs make."""

    @staticmethod
    def forward(
        ctx: Any,
        embeddings: Tensor,
        references: Tensor | None,
        other: Tensor,
        weight: Tensor,
        length: Tensor,
        other_length: Tensor,
        total: Tensor,
    ) -> Tensor:
        ctx.own = references is None
        sides = (embeddings, length) if references is None else (embeddings, length, references, other_length)
        ctx.save_for_backward(other, weight.to(total.dtype), *sides)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        other, weight, embeddings, length, *others = ctx.saved_tensors
        references, other_length = others or (embeddings, length)
        slopes = float(grads[0]) * weight.numpy()
        left = _UnitRows(embeddings, length, weight.dtype)
        right = left if ctx.own else _UnitRows(references, other_length, weight.dtype)
        matrix = _fill(other.numpy(), slopes, len(right.rows))
        nothing = (None,) * 5
        with full_precision(embeddings.device):
            if ctx.own:
                return left.gradient(torch.mm(matrix + matrix.T, right.rows)), None, *nothing
            first = left.gradient(torch.mm(matrix, right.rows)) if ctx.needs_input_grad[0] else None
            second = right.gradient(torch.mm(matrix.T, left.rows)) if ctx.needs_input_grad[1] else None
        return first, second, *nothing


def _fill(other: Array, weight: Array, columns: int) -> Tensor:
    """Return the (rows, columns) matrix of the weights of all places, added up where places name one column."""
    rows, _ = other.shape
    entry = other + numpy.arange(0, rows * columns, columns)[:, None]
    filled = numpy.bincount(entry.reshape(-1), weight.reshape(-1), rows * columns)
    return torch.from_numpy(filled.reshape(rows, columns).astype(weight.dtype))


class _UnitRows:
    """Rows divided by their lengths, zeros for zero rows, in working precision.

    Tensors, since numpy multiplies matrices with threads of its own, which get in the way of torch's.
    """

    def __init__(self, source: Tensor, length: Tensor, dtype: torch.dtype):
        self.dtype = source.dtype
        self.scale = inverse_lengths(length, dtype)[:, None]
        self.rows = source.detach().to(dtype) * self.scale

    def gradient(self, grad: Tensor) -> Tensor:
        """Return the gradient of the rows as given: what lies along a row does not count."""
        along = (grad * self.rows).sum(1, keepdim=True)
        return grad.addcmul_(along, self.rows, value=-1).mul_(self.scale).to(self.dtype)
