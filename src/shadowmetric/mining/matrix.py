"""Mining of a small batch on a CPU: one matrix of its distances and a list of its positive pairs, in numpy.

    distances     (rows, references), exact as everywhere (`comparison`)
    negatives     the same, NEVER where the class is the same
    pairs         (anchor, positive), by anchor, then by positive

It is the plain dense program with exact numbers, and the quickest at 32 rows, where calls are the time. The answers are
those of `slots.py` and `nearest.py`; ties go to the smaller row number, which is the first that numpy finds.

Memory: a few matrices of at most 2^18 numbers, a few numbers for each pair, and lines of the matrix, for as many pairs
at once as fit into the scratch.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy
import torch

from shadowmetric.checks import refuse_few_slots
from shadowmetric.mining.chances import choose_by_chance, draw_chances
from shadowmetric.mining.checked_batch import CheckedBatch, Mined
from shadowmetric.mining.comparison import Comparison
from shadowmetric.ops.arrays import Array
from shadowmetric.ops.free_gaps import gap_block
from shadowmetric.ops.grid_rows import ExactSide
from shadowmetric.ops.runs import NEVER
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import Triplets

LINE_BYTES = 32  # of an entry of a pair's line: its copy, and what a draw makes of it
WHOLE = slice(None)


class MatrixPairs(NamedTuple):
    """Row numbers of anchors and positives, in order, and how far these are."""

    anchor: Array
    positive: Array
    closer: Array


class MatrixTriplets(NamedTuple):
    """Anchors (triplets,); positives and negatives, and how far they are, (2, triplets) each."""

    anchor: Array
    others: Array
    distances: Array

    def to_mined(self) -> Mined:
        """Return the same as tensors."""
        others, distances = torch.from_numpy(self.others), torch.from_numpy(self.distances)
        return Mined(Triplets(torch.from_numpy(self.anchor), others[0], others[1]), (distances[0], distances[1]))


class MatrixSearch:
    """A small batch: its distances and its positive pairs.

    slots: the most positives that a row has, if the caller says so; fewer than there are is refused.
    """

    def __init__(
        self,
        batch: CheckedBatch,
        comparison: Comparison,
        slots: int | None = None,
        *,
        scratch_bytes: int = SCRATCH_BYTES,
    ):
        self.batch, self.comparison, self.slots, self.scratch_bytes = batch, comparison, slots, scratch_bytes
        self.distances = self._measure()
        (labels, others), names = batch.class_labels(), batch.names()
        labels = labels.numpy()
        same = labels[:, None] == (labels if others is None else others.numpy())
        self.negatives = numpy.where(same, NEVER, self.distances)
        if names is None:
            same.reshape(-1)[:: len(labels) + 1] = False
        self.same = same  # with the row itself where it is found among references, as in slots and in class order
        self.positive = same if names is None else same & (names[0].numpy()[:, None] != names[1].numpy())
        if slots is not None:
            refuse_few_slots(slots, self._most_positives())

    def _measure(self) -> Array:
        """Return what is compared, of all pairs of rows."""
        comparison = self.comparison
        if comparison.unit_rows and not self.batch.finer:
            return self.batch.unit_matrix().squared
        left, right = self.batch.grids(normalize=comparison.unit_rows)
        side = ExactSide(left)
        other = side if right is left else ExactSide(right)
        block = gap_block(side, WHOLE, other) if comparison.of_gaps else side.squared_distances(WHOLE, other)
        return block.numpy()

    def _most_positives(self) -> int:
        return int(self.same.sum(1).max())

    def pairs(self) -> MatrixPairs:
        """Return all positive pairs."""
        anchor, positive = self.positive.nonzero()
        return MatrixPairs(anchor, positive, self.distances[anchor, positive])

    def extreme_pairs(self, *, farthest: bool) -> MatrixPairs:
        """Return one pair for each row that has any: its farthest or its nearest positive."""
        anchor = self.positive.any(1).nonzero()[0]
        apart = numpy.where(self.positive, self.distances, -1.0 if farthest else NEVER)
        positive = (apart.argmax(1) if farthest else apart.argmin(1))[anchor]
        return MatrixPairs(anchor, positive, self.distances[anchor, positive])

    def upper_end(self, pairs: MatrixPairs, margin: float) -> Array:
        """Return where the windows above the positives end."""
        square = self.batch.grids(normalize=False)[0].square.numpy()[pairs.anchor] if self.comparison.of_gaps else None
        return self.comparison.upper_end(pairs.closer, margin, square)

    def nearest(self, anchor: Array) -> tuple[Array, Array]:
        """Return distance and row number of the nearest negative of each anchor."""
        column = self.negatives.argmin(1)[anchor]
        return self.negatives[anchor, column], column

    def farthest(self, anchor: Array) -> tuple[Array, Array]:
        """Return distance and row number of the farthest negative of each anchor."""
        column = numpy.where(self.negatives < NEVER, self.negatives, -1.0).argmax(1)[anchor]
        return self.negatives[anchor, column], column

    def nearest_beyond(self, pairs: MatrixPairs) -> tuple[Array, Array]:
        """Return distance and row number of the nearest negative beyond each positive; NEVER if there is none.

        Numbers that are not negative have the order of their bits. Less the positive's, and less 1, as unsigned
        integers: what lies at or below the positive passes through 0, and becomes larger than all that lies beyond.
        """
        bits, floor = self.negatives.view(numpy.uint64), pairs.closer.view(numpy.uint64) + numpy.uint64(1)

        def find(some: slice) -> Array:
            lines = bits[pairs.anchor[some]]
            lines -= floor[some, None]
            return lines.argmin(1)

        column = self._some_at_once(find, len(pairs.anchor))
        farther = self.negatives[pairs.anchor, column]
        return numpy.where(farther > pairs.closer, farther, NEVER), column

    def draw_between(
        self, pairs: MatrixPairs, upper: Array, generator: torch.Generator | None, *, every: bool
    ) -> tuple[Array, Array]:
        """Return distance and row number of a negative between each positive and `upper`, equally likely.

        every: the pairs are all that there are, so that each has a place of its own among those of its row.
        """
        rows = len(self.distances)
        places = max(1, self.slots or self._most_positives()) if every else 1
        chances = draw_chances(rows, places, generator, torch.device("cpu")).numpy()
        place = self.same.cumsum(1)[pairs.anchor, pairs.positive] - 1 if every else 0
        chance = chances[pairs.anchor, place]

        def find(some: slice) -> Array:
            lines = self.negatives[pairs.anchor[some]]
            inside = (lines > pairs.closer[some, None]) & (lines < upper[some, None])
            count = inside.sum(1)
            column = choose_by_chance(inside, count, chance[some])
            return numpy.where(count > 0, column, -1)

        column = self._some_at_once(find, len(pairs.anchor))
        return numpy.where(column < 0, NEVER, self.negatives[pairs.anchor, column]), column

    def _some_at_once(self, find: Callable[[slice], Array], count: int) -> Array:
        """Return what is found for all pairs, as many at once as the scratch holds lines of."""
        some = max(1, self.scratch_bytes // (LINE_BYTES * self.negatives.shape[1]))
        if count <= some:
            return find(WHOLE)
        return numpy.concatenate([find(slice(start, start + some)) for start in range(0, count, some)])


def keep_nearer(pairs: MatrixPairs, negative: Array, farther: Array, upper: Array | float = NEVER) -> MatrixTriplets:
    """Return the triplets whose negative is nearer than `upper`."""
    kept = farther < upper
    others = numpy.concatenate([pairs.positive, negative]).reshape(2, -1)
    distances = numpy.concatenate([pairs.closer, farther]).reshape(2, -1)
    if kept.all():
        return MatrixTriplets(pairs.anchor, others, distances)
    return MatrixTriplets(pairs.anchor[kept], others[:, kept], distances[:, kept])
