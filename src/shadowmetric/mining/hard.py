"""Hard mining: the closest negative of each anchor, with every positive of that anchor.

    n* = arg min over n of d2(a, n)          (paper, eq. 4; d2: squared distance on unit rows, or `comparison`)

The paper fixes the negative only, so each positive makes a triplet with it. Ties go to the smaller
row number. Memory: the scratch, and a few numbers per positive pair.
"""

from dataclasses import KW_ONLY, dataclass, field

import torch

from shadowmetric.checks import check_scratch
from shadowmetric.mining.checked_batch import CheckedBatch, Mined
from shadowmetric.mining.comparison import Unit, check_unit
from shadowmetric.mining.matrix import MatrixSearch, MatrixTriplets, keep_nearer
from shadowmetric.mining.miner import TripletMiner
from shadowmetric.mining.nearest import Search, search_phases
from shadowmetric.mining.ordered import in_order, no_triplets
from shadowmetric.mining.slots import SlotBlock, Slots, SlotSearch, SlotTriplets, keep_where
from shadowmetric.ops.memory import Bytes, Cost
from shadowmetric.ops.runs import NEVER
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES


@dataclass(frozen=True)
class HardMiner(TripletMiner):
    """Choose for each anchor its closest negative, and pair it with every positive.

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

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return the search's bytes, and 40 or 64 a positive pair; a triplet for each pair."""
        searching, ordering = Bytes(positive=40.0), Bytes(positive=64.0)
        phases = search_phases(
            self.scratch_bytes,
            dtype,
            normalize=self.comparison.unit_rows,
            references=references,
            searching=searching,
            ordering=ordering,
        )
        return Cost(Bytes(positive=24.0), phases)

    @property
    def fits_matrix(self) -> bool:
        """Return True."""
        return True

    def mine_in_matrix(self, search: MatrixSearch) -> MatrixTriplets:
        """Return the nearest negative for each positive."""
        pairs = search.pairs()
        farther, negative = search.nearest(pairs.anchor)
        return keep_nearer(pairs, negative, farther)

    @torch.no_grad()
    def mine_in_slots(self, batch: CheckedBatch, slots: Slots) -> SlotTriplets:
        """Return the nearest negative for each positive."""
        search = SlotSearch(batch, slots, self.comparison, scratch_bytes=self.scratch_bytes)

        def choose(block: SlotBlock) -> SlotTriplets:
            farther, negative = search.nearest(block)
            negative = torch.where(block.closer < NEVER, negative, 0)  # one for all places of a row
            return keep_where(block, negative, farther)

        return search.choose(choose)

    @torch.no_grad()
    def mine_by_class(self, batch: CheckedBatch) -> Mined:
        """Return the triplets of a checked batch, arranged by class."""
        search = Search(batch, self.comparison, scratch_bytes=self.scratch_bytes)
        if not search.possible:
            return Mined(no_triplets(batch.labels.device))
        (near,) = search.nearest()
        return in_order([search.make_triplets(pair, near) for pair in search.partners()])
