"""The loss of the rows of all ranks: each rank compares its own anchors with everybody's rows.

    loss = sum over k of (sum over ranks of total_k) / (sum over ranks of count_k)

A rank gathers the rows of all (batch x dim numbers, and no more), computes the totals of its own anchors, and the
counts are summed over ranks: the work over pairs is shared, and the value is that of one process with the whole
batch, rows in rank order. Ranks may have different numbers of rows.

One convention for gradients: the value is the whole loss on every rank, and its gradient is `ranks` times this rank's
part, since DistributedDataParallel divides the sum over ranks by their number. The weights so receive exactly the
gradient of the whole loss; parameters of the loss do after their gradients are averaged too.

A loss that is no sum over anchors (another library's) is computed as a whole on every rank, and each sends the
gradient of its own rows back: correct too, but its work over pairs is not shared.

Traffic: rows forward, their gradient backward, labels and two numbers a quotient. With one process nothing is sent.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from shadowmetric.losses.sums import Sums
from shadowmetric.ops.ranks import gather_rows, ranks_here, row_counts, sum_over_ranks
from shadowmetric.types import AnyLabels, Relation, Scalar


@runtime_checkable
class HasSums(Protocol):
    """A loss that is quotients of sums over anchors."""

    sums: Callable[..., Sums]


class GatheredLoss(nn.Module):
    """A loss of the whole batch of all ranks. Without a process group it is the loss itself."""

    def __init__(self, loss: nn.Module):
        super().__init__()
        self.loss = loss

    def forward(self, embeddings: Tensor, labels: AnyLabels) -> Scalar:
        """Return the loss of all ranks' rows; every rank must call it."""
        ranks = ranks_here().ranks
        if ranks == 1:
            return self.loss(embeddings, labels)
        if not isinstance(self.loss, HasSums):
            return self._whole(embeddings, labels, ranks)
        sizes = row_counts(len(embeddings), embeddings.device)
        rows, first = gather_rows(embeddings, sizes)
        everyone = labels_of_all(labels, sizes)
        sums = self.loss.sums(embeddings, labels, references=rows, reference_labels=everyone, anchors_at=first)
        return value_of_all(sums, rows, ranks)

    def _whole(self, embeddings: Tensor, labels: AnyLabels, ranks: int) -> Scalar:
        """Return the loss of all rows, with a gradient to one's own."""
        sizes = row_counts(len(embeddings), embeddings.device)
        rows, first = gather_rows(embeddings.detach(), sizes)
        own = _ScaledGradient.apply(embeddings, ranks)
        everyone = torch.cat([rows[:first], own, rows[first + len(embeddings) :]])  # pyright: ignore
        return self.loss(everyone, labels_of_all(labels, sizes))


def labels_of_all(labels: AnyLabels, sizes: list[int]) -> AnyLabels:
    """Return the labels of all ranks' rows; of a relation, whose settings and lists must be the same on all of them."""
    if isinstance(labels, Relation):
        return labels.with_rows(gather_rows(labels.rows, sizes).rows)
    return gather_rows(labels, sizes).rows


def value_of_all(own: Sums, rows: Tensor, ranks: int) -> Scalar:
    """Return the loss of all ranks from this one's sums over its anchors, against the gathered rows."""
    all_totals, all_counts = sum_over_ranks(torch.stack([own.totals, own.counts]))
    part = Sums(own.totals, all_counts).value() + rows[:0].sum()  # so that every rank takes part in backward
    return Sums(all_totals, all_counts).value() + ranks * (part - part.detach())


class _ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, factor: int) -> Tensor:
        ctx.factor = factor
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return ctx.factor * gradients[0], None
