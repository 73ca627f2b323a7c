"""What the miners share: partner distances, and the nearest or farthest negative of each row.

Everything is decided by numbers that are exact (`comparison`): squared distances, or gaps of rows as they are. So a
positive and a negative with equal rows are equally far whoever multiplies them. Ties go to the smaller row number.

Memory: the rows on the grid; the scratch, which holds the blocks, and both sides in class order where these are small;
a few numbers per row and positive pair; and copies of up to 64 columns, for each floor that is looked up at once.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.mining.checked_batch import NAMING, CheckedBatch, Mined
from shadowmetric.mining.classes import Classes, group_by_class, partner_columns, rows_with_partner
from shadowmetric.mining.comparison import Comparison
from shadowmetric.ops.arg_min import GROUP, Best, no_best, update_arg_min
from shadowmetric.ops.free_gaps import GapSide, pair_gaps
from shadowmetric.ops.grid_rows import GridSide, pair_squared
from shadowmetric.ops.memory import NOTHING, Bytes, on_grid
from shadowmetric.ops.nearest_beyond import NO_FLOOR, Nearest, nearest_beyond
from shadowmetric.ops.proposed_nearest import propose_nearest
from shadowmetric.ops.runs import NEVER, exclude, rectangles
from shadowmetric.ops.similarity_blocks import LONGEST_SIDE, SCRATCH_BYTES, SHORTEST_SIDE, Block, similarity_blocks
from shadowmetric.types import Triplets

BAND_SIDE = 256  # partners lie near the diagonal: small blocks there waste little of the product
NUMBER = 8  # bytes: distances are float64
FEW_PARTNERS = 8  # of a row, on average: measuring each alone is then quicker than the blocks that hold them


class Partners(NamedTuple):
    """One positive for each of the first rows of the arrangement: its row number, and how far it is."""

    row: Tensor
    distance: Tensor


class Search:
    """A batch arranged by class, and the distances of its rows to the references or to one another."""

    def __init__(
        self,
        batch: CheckedBatch,
        comparison: Comparison,
        *,
        scratch_bytes: int = SCRATCH_BYTES,
    ):
        self.comparison = comparison
        self.symmetric = batch.references is None
        self.rows = len(batch.embeddings)
        self.references = batch.others
        self.classes: Classes = group_by_class(*batch.class_labels())
        self.grids = batch.grids(normalize=comparison.unit_rows)
        small, side = scratch_bytes // 7, GapSide if comparison.of_gaps else GridSide
        left, right = (
            side(grid, order, whole_bytes=small)
            for grid, order in zip(self.grids, (self.classes.order, self.classes.reference_order), strict=True)
        )
        self.left, self.right = left, left if self.symmetric and left.as_it_is else right
        whole = sum(side.whole.nbytes for side in {self.left, self.right} if side.whole is not None)
        self.scratch_bytes, self.for_blocks = scratch_bytes, scratch_bytes - whole
        self.names = batch.names()

    @property
    def possible(self) -> bool:
        """Whether any row has both a partner and a row of another class."""
        classes = self.classes
        return bool(((classes.partners > 0) & (classes.size < len(self.references))).any())

    def partners(self) -> list[Partners]:
        """Return every positive of every row: the s-th entry holds the s-th one of the rows that have so many."""
        classes = self.classes
        counts = rows_with_partner(classes)
        columns = [
            partner_columns(classes, range(slot, slot + 1), slice(count))[0] for slot, count in enumerate(counts)
        ]
        rows = [classes.reference_order[column] for column in columns]
        if sum(counts) <= FEW_PARTNERS * self.rows:
            anchor = torch.cat([classes.order[:count] for count in counts])
            measure = pair_gaps if self.comparison.of_gaps else pair_squared
            distances = measure(*self.grids, anchor, torch.cat(rows)).split(counts)
        else:
            distances = self._partners_of_band(columns)
        return self._without_self([Partners(row, distance) for row, distance in zip(rows, distances, strict=True)])

    def upper_end(self, floor: Tensor, margin: float, top: int = 0) -> Tensor:
        """Return where the windows above partners end: those of the rows from `top` on."""
        return self.comparison.upper_end(floor, margin, self.left.square[top : top + len(floor)])

    def _partners_of_band(self, columns: list[Tensor]) -> list[Tensor]:
        """Return how far partners are, read from the blocks around the diagonal."""
        distances = [torch.empty(len(column), dtype=self.left.dtype, device=column.device) for column in columns]
        line = torch.arange(BAND_SIDE, device=self.classes.start.device)
        for block in self._band():
            for column, distance in zip(columns, distances, strict=True):
                rows = slice(block.top, min(block.bottom, len(column)))
                here = column[rows] - block.first
                if len(here) == 0:
                    break
                inside = (here >= 0) & (here < block.last - block.first)
                value = block.values[line[: len(here)], torch.where(inside, here, 0)]
                distance[rows] = torch.where(inside, value, distance[rows])
        return distances

    def nearest(self, floors: list[Tensor] | None = None) -> list[Nearest]:
        """Return for each floor the nearest negative beyond it; without floors simply the nearest."""
        left, right, classes = self.left, self.right, self.classes
        if floors is None:
            floors = [torch.full((len(left),), NO_FLOOR, dtype=left.dtype, device=left.source.device)]
        proposals = propose_nearest(
            *self.grids,
            classes.order,
            classes.reference_order,
            floors,
            classes.runs,
            symmetric=self.symmetric,
            scratch_bytes=self.scratch_bytes,
        )
        if proposals is not None:
            return proposals
        return nearest_beyond(
            left,
            right,
            floors,
            classes.runs,
            classes.reference_order,
            symmetric=self.symmetric and not self.comparison.of_gaps,
            scratch_bytes=self.for_blocks,
        )

    def farthest(self) -> Nearest:
        """Return the farthest negative of each row, distance -NEVER if it has none."""
        left, right = self.left, self.right
        best = no_best(len(left), left.dtype, left.source.device)
        for block in similarity_blocks(left, right, scratch_bytes=self.for_blocks, temporaries=0.25):
            exclude(block, self.classes.runs, -NEVER)
            self._lower(best, block, block.values.neg_())
        return Nearest(-best.value, best.rank)

    def farthest_partner(self) -> Nearest:
        """Return the farthest positive of each row, distance -NEVER if it has none."""
        left = self.left
        best = no_best(len(left), left.dtype, left.source.device)
        for block in self._band(temporaries=1.25):
            kept = torch.full_like(block.values, NEVER)
            for rows, columns in rectangles(block, self.classes.runs):
                kept[rows, columns] = -block.values[rows, columns]
            if self.names is None:
                first, last = max(block.top, block.first), min(block.bottom, block.last)
                itself = torch.arange(first, max(first, last), device=kept.device)
                kept[itself - block.top, itself - block.first] = NEVER
            else:
                own = self.names[0][self.classes.order[block.top : block.bottom], None]
                kept[own == self.names[1][self.classes.reference_order[block.first : block.last]]] = NEVER
            self._lower(best, block, kept)
        return Nearest(-best.value, best.rank)

    def triplets(self, mask: Tensor, pairs: Partners, negative: Tensor) -> Triplets:
        """Return the triplets of the chosen rows among the first rows of the arrangement."""
        anchor = self.classes.order[: len(mask)]
        return Triplets(anchor[mask], pairs.row[mask], negative[mask])

    def make_triplets(self, pairs: Partners, near: Nearest, within: Tensor | None = None) -> Mined:
        """Return the triplets of partners and negatives, where a row has both, and how far these are.

        within: a negative as far as this, or farther, does not count.
        """
        count = len(pairs.row)
        negative, distance = near.rank[:count], near.distance[:count]
        mask = alive(pairs) & (distance < (NEVER if within is None else within))
        return Mined(self.triplets(mask, pairs, negative), (pairs.distance[mask], distance[mask]))

    def _lower(self, best: Best, block: Block, values: Tensor) -> None:
        """Lower the best answer of a block's rows by its values."""
        rank = self.classes.reference_order[block.first : block.last]
        update_arg_min(best, values, 1, rank, torch.arange(block.top, block.bottom, device=rank.device))

    def _band(self, temporaries: float = 0.0) -> Iterator[Block]:
        """Yield the blocks around the diagonal that hold every positive pair."""
        start, stop = self.classes.start.tolist(), (self.classes.start + self.classes.size).tolist()
        return similarity_blocks(
            self.left,
            self.right,
            scratch_bytes=self.for_blocks,
            longest_side=BAND_SIDE,
            widths=2,
            temporaries=2 * temporaries + 1,
            reach=lambda top, bottom: (start[top], stop[bottom - 1]),
        )

    def _without_self(self, pairs: list[Partners]) -> list[Partners]:
        """Move partners that are the row itself, found again among the references, beyond every distance."""
        if self.names is None:
            return pairs
        own, others = self.names
        for row, distance in pairs:
            itself = own[self.classes.order[: len(row)]] == others[row]
            distance[itself] = NEVER
        return pairs


def search_phases(
    scratch_bytes: int,
    dtype: torch.dtype,
    *,
    normalize: bool,
    references: bool,
    readings: int = 1,
    temporaries: float | None = None,
    searching: Bytes = NOTHING,
    ordering: Bytes = NOTHING,
) -> tuple[Bytes, ...]:
    """Return the bytes of a search, and of putting its triplets in order, beside what a miner says of its own.

    readings: floors of a line that are looked up at once; each copies up to a group of its values and their ranks.
    temporaries: blocks are whole rows, with so many more of their shape.
    """
    side = min(LONGEST_SIDE, math.sqrt(scratch_bytes / (1.5 * NUMBER)))
    copied = readings * GROUP * (NUMBER + 9) * side  # a value, an int64 and a flag
    thinnest = 0.0 if temporaries is None else SHORTEST_SIDE * NUMBER * (1.0 + temporaries)
    rows = Bytes(row=96.0 + 8 * NUMBER, reference=64.0 + 8 * NUMBER)
    grid, making = (on_grid(dtype, normalize=normalize, references=references, making=flag) for flag in (False, True))
    whole = rows + Bytes(scratch=scratch_bytes * 2 / 7)  # the sides
    phases = rows + Bytes(scratch=scratch_bytes + copied, thinnest=thinnest) + searching, whole + ordering
    phases = tuple(
        (phase if references else phase.own()) + part for phase, part in zip(phases, (making, grid), strict=True)
    )
    return (*phases, whole + NAMING + grid) if references else phases


def alive(pairs: Partners) -> Tensor:
    """Return which partners are there: not the row itself, and not none at all."""
    return pairs.distance.abs() < NEVER
