"""Any loss, and a price on the length of embeddings.

    loss + weight * mean over rows of |row|^2

The paper's ablation of collapse has it, with a weight of 1e-3. On rows that already have length 1 the price is a
constant: it is meant for rows as the head gives them, which a loss of unit rows then divides by their length itself.

Memory: a few numbers per row.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from shadowmetric.losses.sums import SummedLoss, Sums, join_sums, mean_of
from shadowmetric.mining.checked_batch import CheckedBatch
from shadowmetric.ops.memory import Bytes, Cost, width_of
from shadowmetric.ops.row_lengths import squared_lengths


class LengthPenalty(SummedLoss):
    """A loss and the mean squared length of its rows, times a weight."""

    def __init__(self, loss: SummedLoss, weight: float):
        super().__init__()
        if not 0 <= weight < float("inf"):
            raise ValueError(f"the weight is {weight}; it must be 0 or more.")
        self.loss, self.weight, self.debug = loss, float(weight), loss.debug

    @property
    def miner(self) -> Any:
        """Return what chooses triplets, if the loss has such a thing."""
        return getattr(self.loss, "miner", None)

    def sums_of_batch(self, batch: CheckedBatch, triplets: Sequence[Tensor] | None) -> Sums:
        """Return the loss's sums, and that of the squared lengths."""
        squared = squared_lengths(batch.embeddings)
        return join_sums(self.loss.sums_of_batch(batch, triplets), mean_of(self.weight * squared))

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return the loss's own cost, and a number a row."""
        inner, more = self.loss.memory(dtype, references=references), Bytes(row=4 * width_of(dtype).working)
        return Cost(inner.kept + more, tuple(phase + more for phase in inner.phases))

    def describe_settings(self) -> str:
        """Return the weight as text."""
        return f"weight={self.weight:g}"
