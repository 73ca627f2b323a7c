"""Batch-hard mining: for each anchor its farthest positive and its closest negative (Hermans et al.).

One triplet for each anchor that has both. Ties go to the smaller row number.
Memory: the scratch, and a few numbers per row, however large the classes are.
"""

from dataclasses import KW_ONLY, dataclass, field

import torch

from shadowmetric.checks import check_scratch
from shadowmetric.mining.checked_batch import CheckedBatch, Mined
from shadowmetric.mining.comparison import Unit, check_unit
from shadowmetric.mining.matrix import MatrixSearch, MatrixTriplets, keep_nearer
from shadowmetric.mining.miner import TripletMiner
from shadowmetric.mining.nearest import Partners, Search, search_phases
from shadowmetric.mining.ordered import in_order, no_triplets
from shadowmetric.mining.slots import (
    SlotBlock,
    Slots,
    SlotSearch,
    SlotTriplets,
    extreme_positive,
    keep_where,
)
from shadowmetric.ops.memory import Bytes, Cost
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES


@dataclass(frozen=True)
class BatchHardMiner(TripletMiner):
    """Choose for each anchor its farthest positive and its closest negative.

    unit: what is compared: "squared" distance, "distance", "gap" or "angle". Unit rows have one order in all four.
    normalize: compare unit rows; False compares rows as they are.
    """

    _: KW_ONLY
    unit: Unit = "squared"
    normalize: bool = True
    scratch_bytes: int = field(default=SCRATCH_BYTES, repr=False)
    debug: bool = field(default=False, repr=False)

    def __post_init__(self):
        check_unit(self.unit)
        check_scratch(self.scratch_bytes)

    @property
    def triplet_for_each(self) -> str:
        """Return "row": one triplet an anchor."""
        return "row"

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return the search's bytes, and 64 a row; a triplet for each row."""
        phases = search_phases(
            self.scratch_bytes,
            dtype,
            normalize=self.comparison.unit_rows,
            references=references,
            ordering=Bytes(row=64.0),
        )
        return Cost(Bytes(row=24.0), phases)

    @property
    def fits_matrix(self) -> bool:
        """Return True."""
        return True

    def mine_in_matrix(self, search: MatrixSearch) -> MatrixTriplets:
        """Return the farthest positive with the nearest negative of each row."""
        pairs = search.extreme_pairs(farthest=True)
        farther, negative = search.nearest(pairs.anchor)
        return keep_nearer(pairs, negative, farther)

    @torch.no_grad()
    def mine_in_slots(self, batch: CheckedBatch, slots: Slots) -> SlotTriplets:
        """Return the farthest positive with the nearest negative: one place for each row."""
        search = SlotSearch(batch, slots, self.comparison, scratch_bytes=self.scratch_bytes)

        def choose(block: SlotBlock) -> SlotTriplets:
            farther, negative = search.nearest(block)
            return keep_where(extreme_positive(block, farthest=True), negative, farther)

        return search.choose(choose)

    @torch.no_grad()
    def mine_by_class(self, batch: CheckedBatch) -> Mined:
        """Return the triplets of a checked batch, arranged by class."""
        search = Search(batch, self.comparison, scratch_bytes=self.scratch_bytes)
        if not search.possible:
            return Mined(no_triplets(batch.labels.device))
        far = search.farthest_partner()
        (near,) = search.nearest()
        return in_order([search.make_triplets(Partners(far.rank, far.distance), near)])
