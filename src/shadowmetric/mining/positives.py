"""The positives of each row, so many places for every row, or as a list of as many as there are.

    order          labels sorted, equal ones in batch order
    start, count   where a row's class begins there, and how many others it has; place: of the row among its class
    positive s     order[start + s + (s >= place)]          while s < count

So shapes depend on the batch and on `slots`, the most positives that a row has: per_class - 1 of a batch with per_class
rows of each class.

Memory: four int64 for each row, and what is asked for.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.checks import reads_values, refuse_few_slots


class PositiveList(NamedTuple):
    """Pairs (anchor, positive), and which of them count: all where that is None."""

    anchor: Tensor
    positive: Tensor
    real: Tensor | None


class Positives:
    """The positives of each row: consecutive numbers in a list of row numbers, but for the row itself."""

    def __init__(
        self,
        numbers: Tensor,  # (any,) row numbers
        start: Tensor,  # (rows,) where a row's positives begin
        count: Tensor,  # (rows,) how many they are
        place: Tensor | None = None,  # (rows,) where among them the row itself stands, which is left out
        names: tuple[Tensor, Tensor] | None = None,  # of both sides, equal where a positive is the anchor
    ):
        self.numbers, self.start, self.count, self.place, self.names = numbers, start, count, place, names

    def sizes(self) -> tuple[int, int]:
        """Return the most positives that a row has, and how many there are in all: one wait."""
        if torch.compiler.is_compiling():
            raise ValueError(
                "slots is None, and a compiled graph can't ask the labels how many positives a row has; "
                "give slots, which is per_class - 1 for batches with per_class rows of each class."
            )
        most, total = torch.stack([self.count.max(), self.count.sum()]).tolist()
        return most, total

    def slots(self, slots: int | None, *, debug: bool = False) -> int:
        """Return how many places a row needs: as many as it was told, or as the labels say."""
        if slots is None:
            return max(1, self.sizes()[0])
        if reads_values(self.count, debug=debug):
            refuse_few_slots(slots, int(self.count.max()))
        return max(1, slots)

    def of(self, start: int, stop: int, slots: int, *, after: int = 0) -> tuple[Tensor, Tensor]:
        """Return the positives of rows [start, stop), and which of the places have one: (rows, slots - after)."""
        return self._choose(slice(start, stop), torch.arange(slots, device=self.numbers.device)[after:])

    def all(self, slots: int | None, *, debug: bool = False) -> PositiveList:
        """Return all places as a list, or without slots as many pairs as there are."""
        rows = len(self.count)
        if slots is not None:
            slots = self.slots(slots, debug=debug)
            positive, real = self.of(0, rows, slots)
            anchor = torch.arange(rows, device=positive.device)[:, None].expand(-1, slots)
            return PositiveList(anchor.reshape(-1), positive.view(-1), real.view(-1))
        last = self.count.cumsum(0)
        number = torch.arange(self.sizes()[1], device=last.device)
        anchor = torch.searchsorted(last, number, right=True)
        positive, real = self._choose(anchor, (number - (last - self.count)[anchor])[:, None])
        return PositiveList(anchor, positive[:, 0], None if self.names is None else real[:, 0])

    def _choose(self, rows: slice | Tensor, slot: Tensor) -> tuple[Tensor, Tensor]:
        real = slot < self.count[rows, None]
        column = slot + self.start[rows, None]
        if self.place is not None:
            column += slot >= self.place[rows, None]
        positive = self.numbers[column.clip(None, len(self.numbers) - 1)]
        if self.names is not None:
            real = real & (self.names[0][rows, None] != self.names[1][positive])
        return positive, real


def class_positives(
    labels: Tensor, reference_labels: Tensor | None, names: tuple[Tensor, Tensor] | None = None
) -> Positives:
    """Return the positives that labels make, in the order of their row numbers. names: as in `CheckedBatch`."""
    others = labels if reference_labels is None else reference_labels
    order = torch.argsort(others, stable=True)
    ranked = others[order]
    start = torch.searchsorted(ranked, labels)
    count = torch.searchsorted(ranked, labels, right=True) - start
    if reference_labels is not None:
        return Positives(order, start, count, names=names)
    return Positives(order, start, count - 1, torch.argsort(order) - start)
