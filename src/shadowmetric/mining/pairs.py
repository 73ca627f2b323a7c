"""Which pairs are positive and which negative, as masks of a block or as a list.

Pairs come from labels (every pair of a batch, a row never with itself) or are named by their row
numbers, as given triplets do: their distinct (anchor, positive) and (anchor, negative) pairs. Losses
over whole rows ask for the masks of the rows they hold, and never for all of them.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.mining.classes import group_by_class, partner_columns, rows_with_partner
from shadowmetric.mining.given import Given
from shadowmetric.types import BlockMask, RowNumbers


class Masks(NamedTuple):
    """The positive and negative pairs of some rows."""

    positive: BlockMask
    negative: BlockMask


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
            row = torch.arange(stop - start, device=same.device)
            same[row, row + start] = False
        else:
            same &= self.names[0][start:stop, None] != self.names[1]
        return Masks(same, negative)

    def positives(self) -> tuple[RowNumbers, RowNumbers]:
        """Return every (anchor, positive) pair."""
        classes = group_by_class(self.labels, self.others)
        anchor, positive = [self.labels[:0]], [self.labels[:0]]
        for slot, count in enumerate(rows_with_partner(classes)):
            anchor.append(classes.order[:count])
            positive.append(classes.reference_order[partner_columns(classes, range(slot, slot + 1), slice(count))[0]])
        pairs = torch.cat(anchor), torch.cat(positive)
        if self.names is None:
            return pairs
        other = self.names[0][pairs[0]] != self.names[1][pairs[1]]
        return pairs[0][other], pairs[1][other]


class NamedPairs:
    """Pairs by their row numbers, (anchor, positive) and (anchor, negative), each once."""

    def __init__(self, positive: tuple[Tensor, Tensor], negative: tuple[Tensor, Tensor], references: int):
        self.references = references
        self.positive, self.negative = (
            torch.unique(anchor * references + other) for anchor, other in (positive, negative)
        )

    def masks(self, start: int, stop: int) -> Masks:
        """Return the masks of rows [start, stop)."""
        return Masks(self._mask(self.positive, start, stop), self._mask(self.negative, start, stop))

    def positives(self) -> tuple[RowNumbers, RowNumbers]:
        """Return every (anchor, positive) pair."""
        return self.positive // self.references, self.positive % self.references

    def _mask(self, pairs: Tensor, start: int, stop: int) -> Tensor:
        ends = torch.tensor([start, stop], device=pairs.device) * self.references
        first, last = torch.searchsorted(pairs, ends).tolist()
        mask = torch.zeros((stop - start) * self.references, dtype=torch.bool, device=pairs.device)
        mask[pairs[first:last] - start * self.references] = True
        return mask.view(stop - start, self.references)


Pairs = LabelPairs | NamedPairs
