"""Semi-hard mining: a negative that is farther than the positive, but not by more than the margin.

For an anchor a and a positive p (paper, eq. 5), n is semi-hard if

    d(a, p) < d(a, n) < d(a, p) + margin          d: squared distance on unit rows, or another `unit`

strictly on both sides. Of these n the nearest is taken for each (a, p), or each of them, or one at
random; a pair without any is dropped. The paper's window is in squared distance; a miner that a loss makes by
name has the loss's unit.

Naive program: three nested loops over rows. Memory: the scratch, and about 94 bytes per positive pair, of
which the triplets and their distances take 32; with two classes that is half of all pairs. Time: half a matrix product,
and two passes over it per positive.
"""

from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, get_args

import numpy
import torch

from shadowmetric.checks import check_choice, check_margin, check_scratch
from shadowmetric.mining.chances import draw_chances
from shadowmetric.mining.checked_batch import CheckedBatch, Mined
from shadowmetric.mining.comparison import Unit, check_unit
from shadowmetric.mining.matrix import MatrixSearch, MatrixTriplets, keep_nearer
from shadowmetric.mining.miner import TripletMiner
from shadowmetric.mining.nearest import NUMBER, Partners, Search, alive, search_phases
from shadowmetric.mining.ordered import in_order, no_triplets, order_triplets
from shadowmetric.mining.slots import (
    SlotBlock,
    Slots,
    SlotSearch,
    SlotTriplets,
    extreme_positive,
    farthest_where_none,
    keep_where,
)
from shadowmetric.mining.window import TEMPORARIES, window_triplets, windows_of_relation
from shadowmetric.ops.memory import Bytes, Cost, each
from shadowmetric.ops.nearest_beyond import FLOORS_AT_ONCE
from shadowmetric.ops.runs import NEVER
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import Relation, Triplets

Negatives = Literal["nearest", "all", "random"]
PositivesUsed = Literal["every", "nearest", "farthest"]
Fallback = Literal["drop", "farthest"]


@dataclass(frozen=True)
class SemiHardMiner(TripletMiner):
    """Choose semi-hard triplets.

    margin: width of the window, in `unit`; infinite for no upper end.
    negatives: "nearest" in the window, "all" in it, or one at "random" (drawn with `generator`).
    positives: "every" one of an anchor, or only its "nearest" or "farthest".
    unit: what is compared, and what the margin measures: "squared" distance, "distance", "gap" (of unit rows half the
    squared distance) or "angle" in radians. Unit rows have one order in all four.
    fallback: a pair with an empty window is dropped ("drop") or takes the "farthest" negative.
    normalize: compare unit rows; False compares rows as they are.
    """

    margin: float = 0.2
    negatives: Negatives = "nearest"
    _: KW_ONLY
    positives: PositivesUsed = "every"
    unit: Unit = "squared"
    fallback: Fallback = "drop"
    normalize: bool = True
    generator: torch.Generator | None = field(default=None, repr=False)
    scratch_bytes: int = field(default=SCRATCH_BYTES, repr=False)
    debug: bool = field(default=False, repr=False)

    def __post_init__(self):
        check_margin(self.margin, finite=False)
        check_scratch(self.scratch_bytes)
        check_choice(self.negatives, get_args(Negatives), "negatives")
        check_choice(self.positives, get_args(PositivesUsed), "positives")
        check_unit(self.unit)
        check_choice(self.fallback, get_args(Fallback), "fallback")
        if self.negatives == "all" and (self.fallback, self.positives) != ("drop", "every"):
            raise ValueError('negatives="all" goes with positives="every" and fallback="drop" only; choose another.')

    @property
    def triplet_for_each(self) -> str:
        """Return "triplet" for a list of all in the windows, "row" where one positive is taken, else "positive"."""
        return "triplet" if self.negatives == "all" else "positive" if self.positives == "every" else "row"

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return the search's bytes, and about 94 a positive pair; with negatives="all" 66 a triplet."""
        number, unit = NUMBER, self.triplet_for_each
        pairs = Bytes(positive=64.0 + number if self.negatives == "random" else 32.0 + 8 * number)
        known = 0 if unit == "triplet" else number  # squared distances go with the triplets
        listed = Bytes(triplet=56.0 if unit == "triplet" else 0.0)
        ordering = Bytes(positive=8.0 + number) + each(unit, 66.0 + 4 * known)
        phases = search_phases(
            self.scratch_bytes,
            dtype,
            normalize=self.comparison.unit_rows,
            references=references,
            readings=FLOORS_AT_ONCE if self.negatives == "nearest" else 1,
            temporaries=None if self.negatives == "nearest" else TEMPORARIES,
            searching=pairs + listed,
            ordering=ordering,
        )
        return Cost(each(unit, 24.0 + 2 * known), phases)

    @property
    def fits_slots(self) -> bool:
        """Return whether one negative is taken for each positive."""
        return self.negatives != "all"

    @property
    def fits_matrix(self) -> bool:
        """Return whether one negative is taken for each positive."""
        return self.negatives != "all"

    def mine_in_matrix(self, search: MatrixSearch) -> MatrixTriplets:
        """Return the chosen negative for each positive, or for one of a row."""
        every = self.positives == "every"
        pairs = search.pairs() if every else search.extreme_pairs(farthest=self.positives == "farthest")
        upper = search.upper_end(pairs, self.margin)
        if self.negatives == "nearest":
            farther, negative = search.nearest_beyond(pairs)
        else:
            farther, negative = search.draw_between(pairs, upper, self.generator, every=every)
        if self.fallback == "drop":
            return keep_nearer(pairs, negative, farther, upper)
        without = farther >= upper
        instead, column = search.farthest(pairs.anchor)
        return keep_nearer(pairs, numpy.where(without, column, negative), numpy.where(without, instead, farther))

    @torch.no_grad()
    def mine_in_slots(self, batch: CheckedBatch, slots: Slots) -> SlotTriplets:
        """Return the chosen negative for each positive, or for one of them."""
        if slots.fused and (self.negatives, self.fallback) != ("nearest", "drop"):
            raise ValueError(f"fused finds the nearest negative only, not that of {self}; leave fused out.")
        search = SlotSearch(batch, slots, self.comparison, scratch_bytes=self.scratch_bytes)
        chances, places = None, slots.width if self.positives == "every" else 1
        if self.negatives == "random":
            chances = draw_chances(len(batch.labels), places, self.generator, batch.labels.device)

        def choose(block: SlotBlock) -> SlotTriplets:
            if self.positives != "every":
                block = extreme_positive(block, farthest=self.positives == "farthest")
            upper = search.upper_end(block, self.margin)
            if chances is None:
                farther, negative = search.nearest_beyond(block, block.closer)
            else:
                farther, negative = search.draw_between(block, upper, chances[block.rows])
            mined = keep_where(block, negative, farther, farther < upper)
            return farthest_where_none(block, mined) if self.fallback == "farthest" else mined

        return search.choose(choose)

    @torch.no_grad()
    def mine_by_class(self, batch: CheckedBatch) -> Mined:
        """Return the triplets, with what mining measured of them, where it did."""
        if isinstance(batch.labels, Relation):  # every negative inside: all else is mined in slots
            return Mined(windows_of_relation(batch, self.comparison, self.margin, scratch_bytes=self.scratch_bytes))
        search = Search(batch, self.comparison, scratch_bytes=self.scratch_bytes)
        if not search.possible:
            return Mined(no_triplets(batch.labels.device))
        partners = choose_partners(search.partners(), self.positives)
        if self.negatives != "nearest":
            drawn = self.negatives == "random"
            triplet_lists = window_triplets(search, partners, self.margin, drawn=drawn, generator=self.generator)
        else:
            near = nearest_in_window(search, partners, self.margin)
            triplet_lists = [mined.triplets for mined in near]
            if self.fallback == "drop":
                return in_order(near)
        if self.fallback == "farthest":
            triplet_lists = [*triplet_lists, *farthest_instead(search, partners, triplet_lists)]
        return Mined(order_triplets(triplet_lists, several=self.negatives == "all"))


def choose_partners(partners: list[Partners], which: str) -> list[Partners]:
    """Return every partner, or one for each row: the nearest or the farthest; ties to the smaller row number."""
    if which == "every":
        return partners
    row, distance = (column.clone() for column in partners[0])
    sign = 1 if which == "nearest" else -1
    for other in partners[1:]:
        here = slice(0, len(other.row))
        mine = torch.where(distance[here] < NEVER, sign * distance[here], NEVER)
        yours = torch.where(other.distance < NEVER, sign * other.distance, NEVER)
        better = (yours < mine) | ((yours == mine) & (other.row < row[here]))
        row[here] = torch.where(better, other.row, row[here])
        distance[here] = torch.where(better, other.distance, distance[here])
    return [Partners(row, distance)]


def nearest_in_window(search: Search, partners: list[Partners], margin: float) -> list[Mined]:
    """Return for each (anchor, partner) the nearest negative beyond the partner, if it is inside the window."""
    nearest = search.nearest([pair.distance for pair in partners])
    return [
        search.make_triplets(pair, near, search.upper_end(pair.distance, margin))
        for pair, near in zip(partners, nearest, strict=True)
    ]


def farthest_instead(search: Search, partners: list[Partners], triplet_lists: list[Triplets]) -> list[Triplets]:
    """Return a triplet with the farthest negative for each pair that was left without one."""
    far = search.farthest()
    instead = []
    for pair, triplets in zip(partners, triplet_lists, strict=True):
        served = torch.zeros(search.rows, dtype=torch.bool, device=pair.row.device)
        served[triplets.anchor] = True
        without = ~served[search.classes.order[: len(pair.row)]]
        count = len(pair.row)
        left_out = without & alive(pair) & (far.distance[:count] > -NEVER)
        instead.append(search.triplets(left_out, pair, far.rank[:count]))
    return instead
