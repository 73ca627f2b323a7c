"""Which pairs are positive and which negative: as masks of a block, as places of a row, or as a list.

Pairs come from labels (every pair of a batch, a row never with itself) or are named by their row
numbers, as given triplets do: their distinct (anchor, positive) and (anchor, negative) pairs. Losses
over whole rows ask for the masks, or the positives, of the rows they hold, and never for all of them.

    places      (rows, slots), of positives; slots is the most that a row has, so that shapes do not depend on labels
    a list      of as many as there are

Memory: four int64 for each row, and what is asked for.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.checks import reads_values
from shadowmetric.mining.given import Given
from shadowmetric.types import BlockMask


class Masks(NamedTuple):
    """The positive and negative pairs of some rows."""

    positive: BlockMask
    negative: BlockMask


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
        if reads_values(self.count, debug=debug) and int(self.count.max()) > slots:
            raise ValueError(
                f"slots is {slots}, and a row of this batch has {int(self.count.max())} positives; give at least as "
                "many, which is per_class - 1 for batches with per_class rows of each class, or leave slots out."
            )
        return max(1, slots)

    def of(self, start: int, stop: int, slots: int) -> tuple[Tensor, Tensor]:
        """Return the positives of rows [start, stop), and which of the places have one: (rows, slots)."""
        slot = torch.arange(slots, device=self.numbers.device)
        return self._choose(slice(start, stop), slot)

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
        positive = self.numbers[column.clamp_max_(len(self.numbers) - 1)]
        if self.names is not None:
            real = real & (self.names[0][rows, None] != self.names[1][positive])
        return positive, real


def slot_positives(given: Given, slots: int) -> tuple[Tensor, Tensor]:
    """Return the positives of each row, and which of the places have one: (rows, slots)."""
    return LabelPairs(given).positives().of(0, len(given.labels), slots)


class LabelPairs:
    """The pairs that labels make."""

    def __init__(self, given: Given):
        self.labels, self.others = given.labels, given.reference_labels
        self.reference_labels = self.labels if self.others is None else self.others
        self.names = given.names()

    def masks(self, start: int, stop: int) -> Masks:
        """Return the masks of rows [start, stop)."""
        same = self.labels[start:stop, None] == self.reference_labels
        negative = ~same
        if self.names is None:
            same.diagonal(start).fill_(False)
        else:
            same &= self.names[0][start:stop, None] != self.names[1]
        return Masks(same, negative)

    def not_negative(self, start: int, stop: int) -> BlockMask:
        """Return which pairs of rows [start, stop) are not negative."""
        return self.labels[start:stop, None] == self.reference_labels

    def positives(self) -> Positives:
        """Return where the positives of each row are: rows in class order, those of a class in batch order."""
        ranked, order = torch.sort(self.reference_labels, stable=True)
        start = torch.searchsorted(ranked, self.labels)
        count = torch.searchsorted(ranked, self.labels, right=True) - start
        if self.others is not None:
            return Positives(order, start, count, names=self.names)
        number = torch.arange(len(order), device=order.device)
        place = torch.empty_like(order).scatter_(0, order, number) - start
        return Positives(order, start, count - 1, place)


class NamedPairs:
    """Pairs by their row numbers, (anchor, positive) and (anchor, negative), each once."""

    def __init__(self, positive: tuple[Tensor, Tensor], negative: tuple[Tensor, Tensor], shape: tuple[int, int]):
        self.rows, self.references = shape
        if torch.compiler.is_compiling():
            raise ValueError(
                "triplets were given, whose distinct pairs a compiled graph can't find; call the loss outside of it, "
                "or without triplets."
            )
        self.pairs = [torch.unique(anchor * self.references + other) for anchor, other in (positive, negative)]

    def masks(self, start: int, stop: int) -> Masks:
        """Return the masks of rows [start, stop)."""
        return Masks(*(self._mask(pairs, start, stop) for pairs in self.pairs))

    def not_negative(self, start: int, stop: int) -> BlockMask:
        """Return which pairs of rows [start, stop) are not negative."""
        return ~self._mask(self.pairs[1], start, stop)

    def positives(self) -> Positives:
        """Return where the positives of each row are."""
        pairs = self.pairs[0]
        ends = torch.searchsorted(pairs, torch.arange(self.rows + 1, device=pairs.device) * self.references)
        return Positives(torch.nn.functional.pad(pairs % self.references, (0, 1)), ends[:-1], ends.diff())

    def _mask(self, pairs: Tensor, start: int, stop: int) -> Tensor:
        ends = torch.tensor([start, stop], device=pairs.device) * self.references
        first, last = torch.searchsorted(pairs, ends).tolist()
        mask = torch.zeros((stop - start) * self.references, dtype=torch.bool, device=pairs.device)
        mask[pairs[first:last] - start * self.references] = True
        return mask.view(stop - start, self.references)


Pairs = LabelPairs | NamedPairs
