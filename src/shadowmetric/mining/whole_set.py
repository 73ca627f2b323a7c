"""The hardest negatives of a whole training set: for each row the nearest rows that are negative, across all batches.

    hardest(a) = the k rows n, negative to a, with the least d2(a, n)        d2: squared distance of unit rows, exact

The guard leaves out what is probably no negative at all, a wrong label or a twin of the anchor under another name:

    n is left out if  d2(a, n) < guard * d2(a, p*),   p*: the nearest positive of a; none is left out without positives

A guard of 1 lets no negative be nearer than the nearest positive, as GISTEmbed's does with its guide; below 1 it leaves
out only what is nearer by that factor, and above 1 it asks for room, as NV-Retriever's share of the positive's
similarity does.

Naive program: the whole matrix of distances, sorted. Ties go to the smaller row number. Memory: the scratch, and k row
numbers and distances for each row. Time: one product of all rows with all, and another one with a guard.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.checks import check_number, check_scratch
from shadowmetric.mining.checked_batch import CheckedBatch, as_checked_batch
from shadowmetric.mining.pairs import Masks
from shadowmetric.ops.grid_rows import GridSide
from shadowmetric.ops.largest import largest_places
from shadowmetric.ops.precision import full_precision
from shadowmetric.ops.runs import NEVER
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES, Block, Progress, similarity_blocks
from shadowmetric.ops.top_k import WIDTH
from shadowmetric.types import AnyLabels, Relation

NO_ROW = -1
TEMPORARIES = 3.0


class HardestNegatives(NamedTuple):
    """For each row its hardest negatives, the nearest first."""

    row: Tensor  # (rows, k) int64, NO_ROW where there is none
    squared: Tensor  # (rows, k) squared distance of unit rows, NEVER where there is none


@torch.no_grad()
def hardest_negatives(
    embeddings: Tensor,
    labels: AnyLabels,
    count: int = 1,
    *,
    guard: float = 0.0,
    scratch_bytes: int = SCRATCH_BYTES,
    progress: Progress | None = None,
) -> HardestNegatives:
    """Return the `count` hardest negatives of each row of a set.

    guard: a negative counts if its squared distance is at least so many times that of the nearest positive; 0: each.
    progress: told the share that is done.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"count is {count!r}; it must be a whole number above 0.")
    check_number(guard, "guard", least=0.0)
    search = _WholeSet(as_checked_batch(embeddings, labels), check_scratch(scratch_bytes))
    with full_precision(embeddings.device):
        floor, share = None, 0.0
        if guard:
            share = 0.5
            nearest = search.nearest_positive(lambda done: progress(done / 2) if progress else None)
            floor = torch.where(nearest < NEVER, guard * nearest, 0.0)
        return search.nearest(count, floor, lambda done: progress(share + (1 - share) * done) if progress else None)


class _WholeSet:
    """A set, and the distances of its rows to one another."""

    def __init__(self, batch: CheckedBatch, scratch_bytes: int):
        self.labels, self.scratch_bytes = batch.labels, scratch_bytes
        grid = batch.grids(normalize=True)[0]
        self.left, self.right = GridSide(grid), GridSide(grid, whole_bytes=scratch_bytes // 4)

    def nearest_positive(self, progress: Progress) -> Tensor:
        """Return the squared distance of the nearest positive of each row, NEVER without any."""
        nearest = self.left.square.new_full((len(self.left),), NEVER)
        for block in self._blocks(progress):
            least = block.values.masked_fill_(~self._masks(block).positive, NEVER).amin(1)
            here = nearest[block.top : block.bottom]
            torch.minimum(here, least, out=here)
        return nearest

    def nearest(self, count: int, floor: Tensor | None, progress: Progress) -> HardestNegatives:
        """Return the nearest negatives of each row, none nearer than its floor."""
        shape = len(self.left), min(count, len(self.left))
        squared = self.left.square.new_full(shape, NEVER)
        row = torch.full(shape, NO_ROW, device=squared.device)
        for block in self._blocks(progress):
            here = slice(block.top, block.bottom)
            out = ~self._masks(block).negative
            if floor is not None:
                out |= block.values < floor[here, None]
            block.values.masked_fill_(out, NEVER)
            column = largest_places(block.values.neg_(), shape[1])
            joined = torch.cat([squared[here], block.values.gather(1, column).neg_()], 1)
            numbers = torch.cat([row[here], column + block.first], 1)
            best = torch.argsort(joined, dim=1, stable=True)[:, : shape[1]]  # smaller numbers stay in front
            squared[here] = joined.gather(1, best)
            row[here] = numbers.gather(1, best).masked_fill_(squared[here] == NEVER, NO_ROW)
        return HardestNegatives(row, squared)

    def _blocks(self, progress: Progress):
        return similarity_blocks(
            self.left,
            self.right,
            scratch_bytes=self.scratch_bytes * 3 // 4,
            width=min(len(self.right), WIDTH),
            temporaries=TEMPORARIES,
            progress=progress,
        )

    def _masks(self, block: Block) -> Masks:
        """Return which pairs of a block are positive, and which negative; a row is neither to itself."""
        here, there = slice(block.top, block.bottom), slice(block.first, block.last)
        if isinstance(self.labels, Relation):
            positive, negative = self.labels.masks(here, self.labels, there)
        else:
            positive = self.labels[here, None] == self.labels[there]
            negative = ~positive
        first, last = max(block.top, block.first), min(block.bottom, block.last)
        itself = torch.arange(first, max(first, last), device=positive.device)
        for mask in (positive, negative):
            mask[itself - block.top, itself - block.first] = False
        return Masks(positive, negative)
