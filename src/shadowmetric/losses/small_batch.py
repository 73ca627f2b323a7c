"""Losses of triplets of a small batch on a CPU: mined in a matrix, summed up in numpy, without autograd's slopes.

The meaning is that of `MinedLoss` by its list of triplets, and so are the bytes that are kept: for each pair one row
number and one slope. What differs is the price of a call: numpy's are a third of torch's, and slopes are written down
(`losses/slopes`). Pairs are few, so the sparse matrix of slopes is filled. Its product with the rows is torch's: numpy
multiplies with threads of its own, which get in the way of torch's.

Memory: kept for backward, one int64 and one number for each pair, and one float64 for each row; working, a few matrices
of at most 2^18 numbers.
"""

from typing import Any

import numpy
import torch
from torch import Tensor

from shadowmetric.losses.reductions import Reduction
from shadowmetric.losses.slopes import Slopes
from shadowmetric.losses.sums import Sums
from shadowmetric.mining.checked_batch import CheckedBatch
from shadowmetric.mining.matrix import MatrixTriplets
from shadowmetric.ops.arrays import Array
from shadowmetric.ops.once import refuse_second_derivative
from shadowmetric.ops.precision import full_precision
from shadowmetric.ops.rows import working_dtype
from shadowmetric.types import Scalar

KINDS = {torch.float32: numpy.float32, torch.float64: numpy.float64}
SIGNS = numpy.array([[1.0], [-1.0]])  # of the slopes of a triplet's two pairs


class SmallBatch:
    """The triplets of a small batch, measured: their sum, their slopes, and by how many a mean divides."""

    def __init__(self, batch: CheckedBatch, mined: MatrixTriplets, slopes: Slopes, margin: float, reduction: Reduction):
        self.batch, self.mined = batch, mined
        self.dtype = working_dtype(batch.embeddings.dtype, batch.others.dtype)
        measured, along = slopes.measure(mined.distances)
        closer, farther = measured.astype(KINDS[self.dtype])  # a hinge meets its kink where torch's does
        value, slope = slopes.hinge(closer - farther + margin)
        self.total, self.slope = numpy.add.reduce(value), along * slope * SIGNS
        self.count = _count(value, reduction)

    def sums(self) -> Sums:
        """Return the sum with a graph, and the count."""
        return Sums(self._with_graph(1).view(1), torch.tensor([self.count], dtype=self.dtype))

    def value(self) -> Scalar:
        """Return the loss, as `Sums.value` does, in fewer calls."""
        return self._with_graph(max(self.count, 1))

    def _with_graph(self, divisor: int) -> Tensor:
        batch, references = self.batch, self.batch.references
        total = numpy.asarray(self.total / divisor, KINDS[self.dtype])
        entry = self.mined.anchor * len(batch.others) + self.mined.others
        weight = (self.slope / divisor).astype(total.dtype)
        pairs = torch.from_numpy(entry), torch.from_numpy(weight)
        lengths = batch.lengths()[: 1 if references is None else 2]
        return _SmallTotal.apply(total, batch.embeddings, references, *pairs, *lengths)  # pyright: ignore


def _count(value: Array, reduction: Reduction) -> int:
    """Return by how many a reduction divides."""
    if reduction == "mean_nonzero":
        return int(numpy.count_nonzero(value > 0))
    return len(value) if reduction == "mean" else 0


class _SmallTotal(torch.autograd.Function):
    """A known total, with the gradient that the slopes of its pairs make."""

    @staticmethod
    def forward(ctx: Any, total: Array, embeddings: Tensor, references: Tensor | None, *known: Tensor) -> Tensor:
        ctx.save_for_backward(*known, embeddings, references)
        return torch.from_numpy(total)  # made here: what a function was given it must not return

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        entry, weight, *lengths, embeddings, references = ctx.saved_tensors
        entry, weight = entry.numpy().reshape(-1), weight.numpy().reshape(-1) * float(grads[0])
        left = _UnitRows(embeddings, lengths[0], weight.dtype)
        with full_precision(embeddings.device):
            if references is None:
                matrix = _fill(*_both_directions(entry, weight, len(left)), len(left), len(left))
                return None, left.gradient(torch.mm(matrix, left.tensor())), None, None, None, None
            right = _UnitRows(references, lengths[1], weight.dtype)
            matrix, wanted = _fill(entry, weight, len(left), len(right)), ctx.needs_input_grad
            first = left.gradient(torch.mm(matrix, right.tensor())) if wanted[1] else None
            second = right.gradient(torch.mm(matrix.T, left.tensor())) if wanted[2] else None
        return None, first, second, None, None, None, None


def _both_directions(entry: Array, weight: Array, size: int) -> tuple[Array, Array]:
    """Return the entries and their mirror images at the diagonal, with their weights."""
    row, column = numpy.divmod(entry, size)
    return numpy.concatenate([entry, column * size + row]), numpy.concatenate([weight, weight])


def _fill(entry: Array, weight: Array, rows: int, columns: int) -> Tensor:
    """Return the (rows, columns) matrix of weights, added up where several have one entry."""
    filled = numpy.bincount(entry, weight, rows * columns).astype(weight.dtype)
    return torch.from_numpy(filled.reshape(rows, columns))


class _UnitRows:
    """Rows divided by their lengths, zeros for zero rows, in working precision."""

    def __init__(self, source: Tensor, length: Tensor, kind: numpy.dtype):
        self.source, lengths = source, length.numpy()
        if numpy.count_nonzero(lengths) < len(lengths):
            lengths = numpy.where(lengths > 0, lengths, numpy.inf)
        self.scale = numpy.minimum(1 / lengths, LARGEST[kind]).astype(kind)[:, None]
        source = source.detach()
        self.rows = (source if source.dtype in KINDS else source.float()).numpy() * self.scale

    def __len__(self) -> int:
        return len(self.rows)

    def tensor(self) -> Tensor:
        """Return the rows as a tensor."""
        return torch.from_numpy(self.rows)

    def gradient(self, grad: Tensor) -> Tensor:
        """Return the gradient of the rows as given: what lies along a row does not count."""
        array = grad.numpy()
        array -= numpy.einsum("ij,ij->i", array, self.rows)[:, None] * self.rows
        array *= self.scale
        return grad.to(self.source.dtype)


LARGEST = {numpy.dtype(kind): numpy.finfo(kind).max for kind in KINDS.values()}
