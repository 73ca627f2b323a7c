"""Which pairs are positive and which negative: as masks of a block, as places of a row, or as a list.

Pairs come from labels or a relation (every pair of a batch, a row never with itself) or are named by their row
numbers, as given triplets do: their distinct (anchor, positive) and (anchor, negative) pairs. Losses
over whole rows ask for the masks, or the positives, of the rows they hold, and never for all of them.

    places      (rows, slots), of positives; slots is the most that a row has, so that shapes do not depend on labels
    a list      of as many as there are

Memory: four int64 for each row, and what is asked for.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.mining.checked_batch import CheckedBatch
from shadowmetric.mining.positives import PositiveList as PositiveList
from shadowmetric.mining.positives import Positives, class_positives
from shadowmetric.types import BlockMask, Relation

MASK_BYTES = 2**22  # of a relation's masks, while its positives are listed


class Masks(NamedTuple):
    """The positive and negative pairs of some rows."""

    positive: BlockMask
    negative: BlockMask


class LabelPairs:
    """The pairs that labels make."""

    temporaries = 0.0

    def __init__(self, batch: CheckedBatch):
        self.labels, self.others = batch.class_labels()
        self.reference_labels = self.labels if self.others is None else self.others
        self.names = batch.names()

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

    def not_negative_of(self, anchor: Tensor) -> Callable[[slice], BlockMask]:
        """Return which pairs of listed rows are not negative, some of the list at a time."""
        class_of = self.labels[anchor]
        return lambda here: class_of[here, None] == self.reference_labels

    def positives(self) -> Positives:
        """Return where the positives of each row are."""
        return class_positives(self.labels, self.others, self.names)


class RelationPairs:
    """The pairs that a relation makes. A reference that is the anchor itself is neither positive nor negative."""

    def __init__(self, batch: CheckedBatch):
        assert isinstance(batch.labels, Relation)
        others = batch.labels if batch.reference_labels is None else batch.reference_labels
        assert isinstance(others, Relation)
        self.labels, self.reference_labels, self.names = batch.labels, others, batch.names()
        self.temporaries = batch.labels.temporaries

    def masks(self, start: int, stop: int) -> Masks:
        """Return the masks of rows [start, stop)."""
        return self._masks(slice(start, stop))

    def not_negative(self, start: int, stop: int) -> BlockMask:
        """Return which pairs of rows [start, stop) are not negative."""
        return ~self._masks(slice(start, stop)).negative

    def not_negative_of(self, anchor: Tensor) -> Callable[[slice], BlockMask]:
        """Return which pairs of listed rows are not negative, some of the list at a time."""
        return lambda here: ~self._masks(anchor[here]).negative

    def positives(self) -> Positives:
        """Return where the positives of each row are."""
        rows, columns = len(self.labels), len(self.reference_labels)
        some = max(1, MASK_BYTES // max(columns, 1))
        numbers, counts = [], []
        for start in range(0, rows, some):
            mask = self.masks(start, min(start + some, rows)).positive
            numbers.append(mask.nonzero()[:, 1])
            counts.append(mask.sum(1))
        count = torch.cat(counts)
        return Positives(torch.nn.functional.pad(torch.cat(numbers), (0, 1)), count.cumsum(0) - count, count)

    def _masks(self, here: slice | Tensor) -> Masks:
        positive, negative = self.labels.masks(here, self.reference_labels)
        if self.names is None:
            rows = torch.arange(len(self.labels), device=positive.device)
            itself = rows[here, None] == rows
        else:
            itself = self.names[0][here, None] == self.names[1]
        return Masks(positive & ~itself, negative & ~itself)


class NamedPairs:
    """Pairs by their row numbers, (anchor, positive) and (anchor, negative), each once."""

    temporaries = 0.0

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


Pairs = LabelPairs | RelationPairs | NamedPairs


def pairs_of(batch: CheckedBatch) -> LabelPairs | RelationPairs:
    """Return the pairs that the labels of a batch make, or its relation."""
    return RelationPairs(batch) if isinstance(batch.labels, Relation) else LabelPairs(batch)
