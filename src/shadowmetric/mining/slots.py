"""Mining with shapes that depend on the batch's size alone: a place for each positive that an anchor may have.

    positive, negative, closer, farther        (rows, slots); a place without a triplet has farther = NEVER

`slots` is the most positives that a row has: per_class - 1 of a batch with per_class rows of each class. Where the
caller gives it nothing here reads a value on the host, so that a GPU never waits, and the shapes of a compiled graph
never change; else it costs one wait. The answers are those of `nearest.py`: exact numbers (`comparison`), ties to the
smaller row number.

Columns stay in batch order, so the first of equal entries, which torch's minima promise, is the smallest row number.

Which batches are mined here says `ways.py`.

Memory: whole rows of distances within the scratch (64 times as much on devices other than a CPU), the rows in float64,
and a few numbers for each place.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.mining.chances import choose_by_chance
from shadowmetric.mining.checked_batch import CheckedBatch, Mined
from shadowmetric.mining.comparison import Comparison
from shadowmetric.mining.pairs import RelationPairs
from shadowmetric.mining.positives import class_positives
from shadowmetric.ops.free_gaps import gap_block
from shadowmetric.ops.grid_rows import ExactSide, GridRows, pair_squared
from shadowmetric.ops.nearest_beyond import NO_FLOOR
from shadowmetric.ops.runs import NEVER
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES, SHORTEST_SIDE, scratch_on
from shadowmetric.types import Relation, Triplets

HALF_STEP = 2.0**-50  # below every difference of two distances on the grid
BEYOND_ALL = 8.0  # distances of unit rows
ENTRY_BYTES = 20  # of a distance: the block, its negatives, and masks
SLOT_BYTES = 10  # of a distance for each slot whose floor it is compared with at once
SLOTS_AT_ONCE = 8
FEW_PLACES = 2**10
WASTED = 2  # places for each positive pair, at most


class Slots(NamedTuple):
    """Of each row, its positives and which of them there are: (rows, slots).

    labels: of both sides. fused: search by one kernel of Triton (`ops/fused_nearest`), without blocks of distances.
    pairs: those of a relation, which then has the place of labels.
    """

    positive: Tensor
    real: Tensor
    labels: tuple[Tensor, Tensor] | None
    fused: bool = False
    pairs: RelationPairs | None = None

    @property
    def width(self) -> int:
        """Return how many places a row has."""
        return self.positive.shape[1]


class SlotTriplets(NamedTuple):
    """Row numbers of positives and negatives, and how far these are: (rows, slots) each."""

    positive: Tensor
    negative: Tensor
    closer: Tensor
    farther: Tensor

    @property
    def real(self) -> Tensor:
        """Return which places hold a triplet."""
        return self.farther < NEVER


class SlotBlock(NamedTuple):
    """Some rows: their positives, how far these are (NEVER where there is none), and how far the negatives."""

    rows: slice
    positive: Tensor  # (rows, slots)
    closer: Tensor  # (rows, slots)
    negatives: Tensor  # (rows, references); NEVER where the class is the same


Choose = Callable[[SlotBlock], SlotTriplets]


def arrange_slots(batch: CheckedBatch, slots: int | None, *, fused: bool = False, debug: bool = False) -> Slots | None:
    """Return the positives of each row, or None where it is better to mine in class order (`nearest.py`).

    With slots it takes every batch. Where nobody gave them, not if one large class would leave most places empty: with
    more than 1,024 places, and more than two for each positive pair. A compiled graph can't ask the labels, so that
    slots must be given.
    """
    if isinstance(batch.labels, Relation):
        return _slots_of_relation(batch, slots, fused=fused, debug=debug)
    labels, reference_labels = batch.class_labels()
    positives = class_positives(labels, reference_labels, batch.names())
    rows = len(labels)
    if slots is None:
        most, pairs = positives.sizes()
        if rows * most > max(FEW_PLACES, WASTED * pairs):
            return None
        slots = max(1, most)
    positive, real = positives.of(0, rows, positives.slots(slots, debug=debug))
    return Slots(positive, real, (labels, labels if reference_labels is None else reference_labels), fused)


def _slots_of_relation(batch: CheckedBatch, slots: int | None, *, fused: bool, debug: bool) -> Slots:
    """Return the positives of each row by a relation, however many."""
    if fused:
        raise ValueError(f"fused compares one label for each row, and labels is a {batch.labels!r}; leave fused out.")
    pairs = RelationPairs(batch)
    positives = pairs.positives()
    positive, real = positives.of(0, len(batch.labels), positives.slots(slots, debug=debug))
    return Slots(positive, real, None, pairs=pairs)


class SlotSearch:
    """A batch in its own order, and the distances of its rows, a few whole rows at a time."""

    def __init__(
        self,
        batch: CheckedBatch,
        slots: Slots,
        comparison: Comparison,
        *,
        scratch_bytes: int = SCRATCH_BYTES,
    ):
        self.slots, self.comparison = slots, comparison
        relation = 0 if slots.pairs is None else 4 * slots.pairs.temporaries
        self.grids: tuple[GridRows, GridRows] = batch.grids(normalize=comparison.unit_rows)
        self.on_grid = comparison.unit_rows and not self.grids[0].finer
        self.entry_bytes = ENTRY_BYTES + int(relation)
        self.scratch_bytes = scratch_on(batch.labels.device, scratch_bytes)

    def choose(self, choose: Choose) -> SlotTriplets:
        """Return what is chosen for each place, a block of rows after the other."""
        if self.slots.fused:
            return choose(self._fused_block())
        parts = [choose(block) for block in self.blocks()]
        return SlotTriplets(*(_join(arrays, 0) for arrays in zip(*parts, strict=True)))

    def blocks(self) -> Iterator[SlotBlock]:
        """Yield blocks of whole rows, as many as fit into the scratch."""
        rows, columns = (len(grid) for grid in self.grids)
        entry = self.entry_bytes + SLOT_BYTES * min(SLOTS_AT_ONCE, self.slots.width)
        height = max(SHORTEST_SIDE, self.scratch_bytes // (entry * columns))
        height = -(-rows // -(-rows // height))
        left = ExactSide(self.grids[0])
        right = left if self.grids[1] is self.grids[0] else ExactSide(self.grids[1])
        for top in range(0, rows, height):
            yield self._block(left, right, slice(top, min(top + height, rows)))

    def _block(self, left: ExactSide, right: ExactSide, here: slice) -> SlotBlock:
        squared: Tensor = (
            gap_block(left, here, right) if self.comparison.of_gaps else left.squared_distances(here, right)
        )
        positive, pairs = self.slots.positive[here], self.slots.pairs
        closer = torch.where(self.slots.real[here], at(squared, positive), NEVER)
        if self.slots.labels is not None:
            labels, other_labels = self.slots.labels
            same = labels[here, None] == other_labels
        else:
            assert pairs is not None
            same = pairs.not_negative(here.start, here.stop)
        return SlotBlock(here, positive, closer, torch.where(same, NEVER, squared))

    def _fused_block(self) -> SlotBlock:
        """Return all rows, with no distances but those of the positives."""
        positive = self.slots.positive
        row = torch.arange(len(positive), device=positive.device)[:, None].expand_as(positive)
        squared = pair_squared(*self.grids, row.reshape(-1), positive.reshape(-1)).view_as(positive)
        closer = torch.where(self.slots.real, squared, NEVER)
        return SlotBlock(slice(0, len(positive)), positive, closer, closer[:, :0])

    def upper_end(self, block: SlotBlock, margin: float) -> Tensor:
        """Return where the windows above the positives end."""
        return self.comparison.upper_end(block.closer, margin, self.grids[0].square[block.rows, None])

    def nearest(self, block: SlotBlock) -> tuple[Tensor, Tensor]:
        """Return distance and column of the nearest negative of each row: (rows, 1) each."""
        if self.slots.fused:
            return self.nearest_beyond(block, torch.full_like(block.closer[:, :1], NO_FLOOR))
        column = block.negatives.min(1, keepdim=True).indices
        return at(block.negatives, column), column

    def nearest_beyond(self, block: SlotBlock, floors: Tensor) -> tuple[Tensor, Tensor]:
        """Return distance and column of the nearest negative beyond each floor (rows, slots); NEVER if there is none.

        On the grid distances are multiples of 2^-48, at most 4. Then the largest of 1 / (distance - floor - 2^-50) is
        the nearest beyond the floor: the differences are exact and not 0, and their reciprocals still tell them apart.
        A CPU does that faster than it compares, since it can't guess which of the entries lie beyond.
        """
        if self.slots.fused:
            from shadowmetric.ops.fused_nearest import fused_nearest  # takes seconds

            assert self.slots.labels is not None
            nearest = fused_nearest(*self.grids, *self.slots.labels, floors)
            return nearest.distance, nearest.rank.clamp_max(len(self.grids[1]) - 1)
        negatives = block.negatives
        fast = self.on_grid and negatives.device.type == "cpu"
        find = _nearest_by_reciprocal if fast else _nearest_by_comparison
        return self._slots_at_once(lambda some: find(negatives, some), floors)

    def draw_between(self, block: SlotBlock, upper: Tensor, chances: Tensor) -> tuple[Tensor, Tensor]:
        """Return distance and column of one negative beyond each positive and nearer than `upper`, equally likely."""

        def draw(lower: Tensor, upper: Tensor, chances: Tensor) -> tuple[Tensor, Tensor]:
            return _draw_some(block.negatives, lower, upper, chances)

        return self._slots_at_once(draw, block.closer, upper, chances)

    def _slots_at_once(self, find: Callable, *arrays: Tensor) -> tuple[Tensor, Tensor]:
        """Return what is found for all slots, a few at once."""
        slots = range(0, arrays[0].shape[1], SLOTS_AT_ONCE)
        parts = [find(*(array[:, slot : slot + SLOTS_AT_ONCE] for array in arrays)) for slot in slots]
        distances, columns = zip(*parts, strict=True)
        return _join(distances, 1), _join(columns, 1)


def at(values: Tensor, column: Tensor) -> Tensor:
    """Return the entries of each row in some of its columns."""
    return values[torch.arange(len(column), device=column.device)[:, None], column]


def _join(parts: tuple[Tensor, ...], axis: int) -> Tensor:
    """Return parts one after the other; the only one as it is, since every call is a launch."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, axis)


def _nearest_by_reciprocal(negatives: Tensor, floors: Tensor) -> tuple[Tensor, Tensor]:
    apart = negatives[:, None] - (floors + HALF_STEP).clip(None, BEYOND_ALL)[:, :, None]
    column = apart.reciprocal_().max(-1).indices  # argmax takes longer
    value = at(negatives, column)
    return torch.where(value > floors, value, NEVER), column


def _nearest_by_comparison(negatives: Tensor, floors: Tensor) -> tuple[Tensor, Tensor]:
    column = torch.where(negatives[:, None] > floors[:, :, None], negatives[:, None], NEVER).min(-1).indices
    value = at(negatives, column)
    return torch.where(value > floors, value, NEVER), column


def _draw_some(negatives: Tensor, lower: Tensor, upper: Tensor, chances: Tensor) -> tuple[Tensor, Tensor]:
    inside = (negatives[:, None] > lower[:, :, None]) & (negatives[:, None] < upper[:, :, None])
    count = inside.sum(2)
    column = choose_by_chance(inside, count, chances).clip(None, negatives.shape[1] - 1)
    return torch.where(count > 0, at(negatives, column), NEVER), column


def extreme_positive(block: SlotBlock, *, farthest: bool) -> SlotBlock:
    """Return a block with one place for each row: its farthest or its nearest positive."""
    if farthest:
        slot = torch.where(block.closer < NEVER, block.closer, -1.0).max(1, keepdim=True).indices
    else:
        slot = block.closer.min(1, keepdim=True).indices
    return block._replace(positive=at(block.positive, slot), closer=at(block.closer, slot))


def keep_where(block: SlotBlock, negative: Tensor, farther: Tensor, keep: Tensor | None = None) -> SlotTriplets:
    """Return the triplets of a block; farther is NEVER where one is not kept, or has no positive."""
    real = block.closer < NEVER
    farther = torch.where(real if keep is None else real & keep, farther, NEVER)
    return SlotTriplets(block.positive, negative, block.closer, farther)


def farthest_where_none(block: SlotBlock, mined: SlotTriplets) -> SlotTriplets:
    """Return the triplets with the farthest negative of the row where a positive was left without one."""
    where = torch.where
    column = where(block.negatives < NEVER, block.negatives, -1.0).max(1, keepdim=True).indices
    value = at(block.negatives, column)
    without = (mined.closer < NEVER) & (mined.farther == NEVER) & (value < NEVER)
    return mined._replace(negative=where(without, column, mined.negative), farther=where(without, value, mined.farther))


def list_triplets(mined: SlotTriplets) -> Mined:
    """Return the triplets of all places as lists; positives ascend with the slots. One wait, for their number."""
    real = mined.real
    anchor = real.nonzero()[:, 0]
    positive, negative, closer, farther = (values.expand_as(real)[real] for values in mined)
    return Mined(Triplets(anchor, positive, negative), (closer, farther))
