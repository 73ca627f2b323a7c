"""The positives of each row, so many places for every row, or as a list of as many as there are.

    order          labels sorted, equal ones in batch order
    start, count   where a row's class begins there, and how many others it has; place: of the row among its class
    positive s     order[start + s + (s >= place)]          while s < count

So shapes depend on the batch and on `slots`, the most positives that a row has: per_class - 1 of a batch with per_class
rows of each class. Arrays are numpy's or torch's (`ops/arrays`).

Memory: four int64 for each row, and what is asked for.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.checks import reads_values
from shadowmetric.ops.arrays import Array, count_up, places_among, stable_order


class PositiveList(NamedTuple):
    """Pairs (anchor, positive), and which of them count: all where that is None."""

    anchor: Tensor
    positive: Tensor
    real: Tensor | None


class Positives:
    """The positives of each row: consecutive numbers in a list of row numbers, but for the row itself."""

    def __init__(
        self,
        numbers: Array,  # (any,) row numbers
        start: Array,  # (rows,) where a row's positives begin
        count: Array,  # (rows,) how many they are
        place: Array | None = None,  # (rows,) where among them the row itself stands, which is left out
        names: tuple[Array, Array] | None = None,  # of both sides, equal where a positive is the anchor
    ):
        self.numbers, self.start, self.count, self.place, self.names = numbers, start, count, place, names

    def sizes(self) -> tuple[int, int]:
        """Return the most positives that a row has, and how many there are in all: one wait."""
        if torch.compiler.is_compiling():
            raise ValueError(
                "slots is None, and a compiled graph can't ask the labels how many positives a row has; "
                "give slots, which is per_class - 1 for batches with per_class rows of each class."
            )
        most, total = self.count.max(), self.count.sum()
        if isinstance(most, Tensor):
            most, total = torch.stack([most, total]).tolist()
        return int(most), int(total)

    def slots(self, slots: int | None, *, debug: bool = False) -> int:
        """Return how many places a row needs: as many as it was told, or as the labels say."""
        if slots is None:
            return max(1, self.sizes()[0])
        if (not isinstance(self.count, Tensor) or reads_values(self.count, debug=debug)) and int(
            self.count.max()
        ) > slots:
            raise ValueError(
                f"slots is {slots}, and a row of this batch has {int(self.count.max())} positives; give at least as "
                "many, which is per_class - 1 for batches with per_class rows of each class, or leave slots out."
            )
        return max(1, slots)

    def of(self, start: int, stop: int, slots: int, *, after: int = 0) -> tuple[Array, Array]:
        """Return the positives of rows [start, stop), and which of the places have one: (rows, slots - after)."""
        return self._choose(slice(start, stop), count_up(slots, self.numbers)[after:])

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

    def _choose(self, rows: slice | Tensor, slot: Array) -> tuple[Array, Array]:
        real = slot < self.count[rows, None]
        column = slot + self.start[rows, None]
        if self.place is not None:
            column += slot >= self.place[rows, None]
        positive = self.numbers[column.clip(None, len(self.numbers) - 1)]
        if self.names is not None:
            real = real & (self.names[0][rows, None] != self.names[1][positive])
        return positive, real


def class_positives(
    labels: Array, reference_labels: Array | None, names: tuple[Array, Array] | None = None
) -> Positives:
    """Return the positives that labels make, in the order of their row numbers. names: as `CheckedBatch.names` has them."""
    others = labels if reference_labels is None else reference_labels
    order = stable_order(others)
    ranked = others[order]
    start = places_among(ranked, labels)
    count = places_among(ranked, labels, right=True) - start
    if reference_labels is not None:
        return Positives(order, start, count, names=names)
    return Positives(order, start, count - 1, stable_order(order) - start)
