"""A loss as quotients of sums over anchors: what lets several processes compute it in parts.

    loss = sum over k of total_k / max(count_k, 1)

Each total and each count is a sum over anchors, so those of a batch are the sums over its parts. The mean over mined
triplets has one quotient; contrastive has two, of positive and of negative pairs; a plain sum has a count of 0.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from shadowmetric.mining.checked_batch import CheckedBatch, as_checked_batch
from shadowmetric.ops.memory import Cost
from shadowmetric.types import AnyLabels, Place, Scalar


class Sums(NamedTuple):
    """Totals with a graph, and counts without one."""

    totals: Tensor  # (parts,)
    counts: Tensor  # (parts,)

    def value(self) -> Scalar:
        """Return the loss; 0 with a graph if there is nothing."""
        quotients = self.totals / self.counts.clamp_min(1)
        return quotients.view(()) if len(quotients) == 1 else quotients.sum()


def sums_of(*quotients: tuple[Tensor, Tensor | int]) -> Sums:
    """Return the sums of (total, count) pairs."""
    if len(quotients) == 1:  # fewer calls
        total, count = quotients[0]
        counts = count.detach().to(total.dtype).view(1) if isinstance(count, Tensor) else total.new_full((1,), count)
        return Sums(total.view(1), counts)
    total = torch.stack([total for total, _ in quotients])
    counts = [
        count.detach().to(total.dtype) if isinstance(count, Tensor) else total.new_full((), count)
        for _, count in quotients
    ]
    return Sums(total, torch.stack(counts))


def join_sums(first: Sums, second: Sums) -> Sums:
    """Return the sums of a loss that is the sum of two."""
    return Sums(torch.cat([first.totals, second.totals]), torch.cat([first.counts, second.counts]))


def mean_of_real(values: Tensor, real: Tensor | None) -> Sums:
    """Return the sums of a mean over the values that count: all where that is None."""
    if real is None:
        return mean_of(values)
    return sums_of(((values * real).sum(), real.sum()))


def mean_of(values: Tensor) -> Sums:
    """Return the sums of a mean over values."""
    return sums_of((values.sum(), len(values)))


class SummedLoss(nn.Module):
    """A loss of a batch. Subclasses give `sums_of_batch`."""

    debug: bool

    def sums_of_batch(self, batch: CheckedBatch, triplets: Sequence[Tensor] | None) -> Sums:
        """Return the sums over the anchors of a checked batch."""
        raise NotImplementedError

    def value_of_batch(self, batch: CheckedBatch, triplets: Sequence[Tensor] | None) -> Scalar:
        """Return the loss of a checked batch."""
        return self.sums_of_batch(batch, triplets).value()

    def describe_settings(self) -> str:
        """Return the settings as text, the margin with its unit."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Say the settings, and the bytes that are kept for backward; the letters are those of `ops/memory`."""
        settings = self.describe_settings()
        try:
            return f"{settings}, kept={self.memory().kept} bytes"
        except ValueError:  # a miner of another library, which does not say what its triplets take
            return settings

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return what a batch of embeddings of a type takes, forward and backward, as formulas.

        references: whether it is compared with references, which want their gradient too.
        """
        raise NotImplementedError

    def sums(
        self,
        embeddings: Tensor,
        labels: AnyLabels,
        triplets: Sequence[Tensor] | None = None,
        *,
        references: Tensor | None = None,
        reference_labels: AnyLabels | None = None,
        anchors_at: Place | None = None,
    ) -> Sums:
        """Return the loss as sums over anchors, so that parts of a batch can be added up."""
        batch = as_checked_batch(embeddings, labels, references, reference_labels, anchors_at, debug=self.debug)
        return self.sums_of_batch(batch, triplets)

    def forward(
        self,
        embeddings: Tensor,
        labels: AnyLabels,
        triplets: Sequence[Tensor] | None = None,
        *,
        references: Tensor | None = None,
        reference_labels: AnyLabels | None = None,
        anchors_at: Place | None = None,
    ) -> Scalar:
        """Return the loss of a batch, of its own choice of pairs or of given triplets; 0 with a graph if none.

        references, reference_labels: rows that anchors are compared with, instead of the batch itself.
        anchors_at: the batch is the references' rows from this number on, so an anchor is not its own positive;
        "elsewhere" if none of them is an anchor, however equal. Else a reference that equals its anchor is taken for
        it.
        """
        batch = as_checked_batch(embeddings, labels, references, reference_labels, anchors_at, debug=self.debug)
        return self.value_of_batch(batch, triplets)
