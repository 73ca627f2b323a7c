"""What losses of triplets share: their settings, and which way a batch is taken.

    value(a, p, n) = hinge( measure(a, p), measure(a, n) )

A loss gives the two functions; both work on pairs in any shape. So there are several ways to one meaning:

    in a matrix   mined from all distances at once, and summed up in numpy: small batches on a CPU (`small_batch`)
    in slots      mined with a place for each positive of a row: devices, which then never wait, and compiled graphs
                  (`triplet_slots`)
    in a list     mined in class order: large batches on a CPU, classes of very unequal sizes; given triplets, miners of
                  other libraries (`triplet_list`)
    exhaustive    miner="all" and negatives="all": streamed, without a list (`exhaustive`)

`mining/ways` says where each is taken.

Memory: beyond the embeddings, a few numbers per triplet, or the scratch (`mined_cost`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypedDict, get_args

import torch
from torch import Tensor

from shadowmetric.checks import check_choice, check_margin, check_scratch, check_slots, check_triplets
from shadowmetric.losses.exhaustive import all_triplet_totals, is_exhaustive
from shadowmetric.losses.mined_cost import mined_cost
from shadowmetric.losses.reductions import Reduction, check_reduction, reduce_totals, totals_of
from shadowmetric.losses.slopes import Slopes
from shadowmetric.losses.small_batch import SmallBatch
from shadowmetric.losses.sums import SummedLoss, Sums
from shadowmetric.losses.triplet_list import mine, triplet_values
from shadowmetric.losses.triplet_margins import Margin, TripletMargins, class_margins, widened
from shadowmetric.losses.triplet_slots import slot_sums
from shadowmetric.mining import AllMiner, BatchHardMiner, HardMiner, SemiHardMiner
from shadowmetric.mining.checked_batch import CheckedBatch, Mined
from shadowmetric.mining.comparison import Unit
from shadowmetric.mining.matrix import MatrixSearch
from shadowmetric.mining.miner import TripletMiner
from shadowmetric.mining.slots import arrange_slots
from shadowmetric.mining.ways import choose_way
from shadowmetric.ops.memory import Cost
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import Miner, Relation, Scalar

MinerName = Literal["hard", "semi_hard", "batch_hard", "all"]
MINERS: dict[MinerName, Callable[[float, Unit, bool, int], TripletMiner]] = {
    "hard": lambda margin, unit, unit_rows, scratch: HardMiner(unit=unit, normalize=unit_rows, scratch_bytes=scratch),
    "semi_hard": lambda margin, unit, unit_rows, scratch: SemiHardMiner(
        margin, unit=unit, normalize=unit_rows, scratch_bytes=scratch
    ),
    "batch_hard": lambda margin, unit, unit_rows, scratch: BatchHardMiner(
        unit=unit, normalize=unit_rows, scratch_bytes=scratch
    ),
    "all": lambda margin, unit, unit_rows, scratch: AllMiner(),
}
UNIT_NAMES: dict[Unit, str] = {
    "gap": "gap",
    "squared": "squared distance",
    "distance": "distance",
    "angle": "radians",
}


class MinedSettings(TypedDict, total=False):
    """What every loss of triplets can be told besides its margin."""

    miner: MinerName | Miner
    normalize: bool
    reduction: Reduction
    slots: int | None
    fused: bool
    scratch_bytes: int
    debug: bool


class MinedLoss(SummedLoss):
    """A loss of triplets: settings, mining and reduction. Subclasses give `measure` and `hinge`.

    margin: in the unit of what the loss compares; its `repr` says which. A mapping from labels, or a tensor (classes,),
    gives the anchors of each class their own. Of a relation that is graded, it is that of the largest difference.
    miner: "hard", "semi_hard", "batch_hard" or "all", which compare what the loss compares, with its margin in its
    unit, on unit rows or rows as they are, as the loss does; or a miner object, which keeps its own settings.
    normalize: compare unit rows; False compares rows as they are.
    reduction: "mean" or "sum" over triplets, or "mean_nonzero" over those with a value above zero.
    slots: the most positives that a row has, per_class - 1 of a batch with per_class rows of each class. With it a
    device never waits for the host, and torch.compile makes one graph; without it the labels are asked.
    fused: search and add up by Triton's kernels, for large batches on a GPU: no block of distances is ever stored. Not
    the default, since nobody has measured them on a GPU yet. Unit rows of float32 or half types.
    scratch_bytes: what mining and streaming may use beyond inputs and results; 64 times as much on other devices
    than a CPU.
    debug: check values (finite, in range) on any device; on a CPU they always are.
    """

    unit: Unit
    slopes: Slopes | None = None  # of unit rows, for small batches on a CPU; without them autograd is asked

    def __init__(
        self,
        margin: Margin = 0.2,
        *,
        miner: MinerName | Miner = "semi_hard",
        normalize: bool = True,
        reduction: Reduction = "mean",
        slots: int | None = None,
        fused: bool = False,
        scratch_bytes: int = SCRATCH_BYTES,
        debug: bool = False,
    ):
        super().__init__()
        self.by_class = None
        if isinstance(margin, Mapping | Tensor):
            self.by_class = class_margins(margin)
            margin = float(self.by_class.margins.max())
        self.margin = check_margin(margin)
        self.normalize, self.by_name = normalize, isinstance(miner, str)
        self.reduction: Reduction = check_reduction(reduction)
        self.slots, self.fused = check_slots(slots), fused
        self.scratch_bytes = check_scratch(scratch_bytes)
        self.miner: Miner = self.make_miner(miner) if isinstance(miner, str) else miner
        if not callable(self.miner):
            raise ValueError(f"miner is {miner!r}; give one of {', '.join(MINERS)} or a miner object.")
        self.debug = debug or getattr(self.miner, "debug", False)

    @property
    def window(self) -> float:
        """Return the width of the semi-hard window of a miner by name, in the loss's unit."""
        return self.margin

    def make_miner(self, name: MinerName) -> TripletMiner:
        """Return the miner of a name: it compares what this loss compares, and has its margin in its unit."""
        check_choice(name, get_args(MinerName), "miner")
        return MINERS[name](self.window, self.unit, self.normalize, self.scratch_bytes)

    def measure(self, dots: Tensor, square: Tensor, other_square: Tensor) -> Tensor:
        """Return what is compared, from dot products and squared lengths."""
        raise NotImplementedError

    def hinge(self, closer: Tensor, farther: Tensor) -> Tensor:
        """Return the value of triplets from what was measured."""
        raise NotImplementedError

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return the bytes of mining and of the triplets' pairs; where every triplet counts, of streaming them."""
        return mined_cost(self.miner, self.scratch_bytes, dtype, normalize=self.normalize, references=references)

    def value_of_batch(self, batch: CheckedBatch, triplets: Sequence[Tensor] | None) -> Scalar:
        """Return the loss of a checked batch."""
        small = self._small_batch(batch, triplets)
        return super().value_of_batch(batch, triplets) if small is None else small.value()

    def sums_of_batch(self, batch: CheckedBatch, triplets: Sequence[Tensor] | None) -> Sums:
        """Return the sums over the triplets of its own mining, or over given ones."""
        small = self._small_batch(batch, triplets)
        if small is not None:
            return small.sums()
        if triplets is None and is_exhaustive(self.miner):
            return self._sums_of_all(batch, self.miner)
        sums = self._sums_in_slots(batch) if triplets is None else None
        return self._sums_of_list(batch, triplets) if sums is None else sums

    def _small_batch(self, batch: CheckedBatch, triplets: Sequence[Tensor] | None) -> SmallBatch | None:
        """Return the triplets of a batch that is mined in a matrix, if the loss compares what its miner does."""
        miner, slopes = self.miner, self.slopes
        if self.by_class is not None:
            return None
        if triplets is not None or slopes is None or not isinstance(miner, TripletMiner) or not self._knows(miner):
            return None
        if choose_way(batch, miner, fused=self.fused) != "matrix":
            return None
        search = MatrixSearch(batch, miner.comparison, self.slots, scratch_bytes=self.scratch_bytes)
        return SmallBatch(batch, miner.mine_in_matrix(search), slopes, self.margin, self.reduction)

    def _knows(self, miner: TripletMiner) -> bool:
        """Return whether a miner measures what the loss compares: distances of unit rows."""
        return self.normalize and miner.comparison.unit_rows

    def _sums_in_slots(self, batch: CheckedBatch) -> Sums | None:
        """Return the sums over the triplets of a batch that is mined in slots."""
        miner = self.miner
        if self.by_class is not None or isinstance(batch.labels, Relation):
            if torch.compiler.is_compiling():
                raise ValueError("a compiled graph takes one label for each row and one margin; call the loss outside.")
            return None
        if not isinstance(miner, TripletMiner) or choose_way(batch, miner, fused=self.fused) != "slots":
            return None
        slots = arrange_slots(batch, self.slots, fused=self.fused, debug=self.debug)
        if slots is None:
            return None
        return slot_sums(
            batch,
            miner.mine_in_slots(batch, slots),
            self.measure,
            self.hinge,
            normalize=self.normalize,
            known=self._knows(miner),
            reduction=self.reduction,
            fused=self.fused,
        )

    def _sums_of_list(self, batch: CheckedBatch, triplets: Sequence[Tensor] | None) -> Sums:
        chosen, squared = mine(self.miner, batch, self.slots) if triplets is None else (triplets, None)
        anchors, others, device = len(batch.embeddings), len(batch.others), batch.embeddings.device
        mined = Mined(check_triplets(chosen, anchors, others, device, debug=self.debug), squared)
        margins = self._margins(batch)
        if margins is None:
            values = triplet_values(batch, mined, self.measure, self.hinge, normalize=self.normalize)
            return reduce_totals(totals_of(values), self.reduction)
        more = margins.of_triplets(mined.triplets)

        def hinge(closer: Tensor, farther: Tensor) -> Tensor:
            return self.hinge(widened(closer, more), farther)

        totals = totals_of(triplet_values(batch, mined, self.measure, hinge, normalize=self.normalize))
        if self.by_name and isinstance(self.miner, SemiHardMiner) and triplets is None:
            totals = totals._replace(
                triplets=totals.above_zero
            )  # the others lie beyond the windows of their own margins
        return reduce_totals(totals, self.reduction)

    def _margins(self, batch: CheckedBatch) -> TripletMargins | None:
        """Return the margins of a batch's triplets, where they differ."""
        graded = isinstance(batch.labels, Relation) and batch.labels.graded
        return TripletMargins(batch, self.margin, self.by_class) if graded or self.by_class is not None else None

    def _sums_of_all(self, batch: CheckedBatch, miner: AllMiner | SemiHardMiner) -> Sums:
        totals = all_triplet_totals(
            batch,
            miner,
            self.measure,
            self.hinge,
            normalize=self.normalize,
            slots=self.slots,
            margins=self._margins(batch),
            debug=self.debug,
            scratch_bytes=self.scratch_bytes,
        )
        return reduce_totals(totals, self.reduction)

    def describe_settings(self) -> str:
        """Return the settings as text, the margin with its unit."""
        shape = f"normalize={self.normalize}, reduction={self.reduction!r}"
        if self.by_class is not None:
            least, classes = float(self.by_class.margins.min()), len(self.by_class.labels)
            span = f"{least:g} to {self.margin:g} for {classes} classes"
            return f"margin={span} ({UNIT_NAMES[self.unit]}), miner={self.miner}, {shape}"
        return f"margin={self.margin:g} ({UNIT_NAMES[self.unit]}), miner={self.miner}, {shape}"
