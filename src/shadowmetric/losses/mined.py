"""What losses of triplets share: choose triplets, measure both pairs of each, reduce.

    value(a, p, n) = hinge( measure(a, p), measure(a, n) )

A loss gives the two functions; both work on pairs in any shape. So there are three ways to one meaning:

    in slots      mined with a place for each positive of a row (`mining/slots`), measured by `ops/slot_pairs`: small
                  batches on a CPU; other devices, which then never wait; compiled graphs
    by class      mined in class order (`mining/nearest`), measured as a list by `ops/pair_measures`: large batches on a
                  CPU, classes of very unequal sizes, given triplets, miners of other libraries
    exhaustive    miner="all" and negatives="all": streamed, without a list (`losses/exhaustive`)

`mining/slots.arrange_slots` says where the first is taken.

Memory: beyond the embeddings, a few numbers per triplet, or the scratch.
"""

from collections.abc import Callable, Sequence
from typing import Literal, TypedDict, get_args

import torch
from torch import Tensor

from shadowmetric.checks import (
    check_choice,
    check_margin,
    check_rows,
    check_scratch,
    check_slots,
    check_triplets,
)
from shadowmetric.losses.exhaustive import STREAMED, all_triplet_totals, is_exhaustive
from shadowmetric.losses.reductions import Reduction, check_reduction, reduce_totals, totals_of
from shadowmetric.losses.slopes import Slopes
from shadowmetric.losses.small_batch import is_small, small_sums
from shadowmetric.losses.sums import SummedLoss, Sums, sums_of
from shadowmetric.mining import AllMiner, BatchHardMiner, HardMiner, SemiHardMiner
from shadowmetric.mining.checked_batch import NAMING, CheckedBatch, Mined
from shadowmetric.mining.comparison import Unit
from shadowmetric.mining.miner import TripletMiner
from shadowmetric.mining.slots import Slots, SlotTriplets, arrange_slots
from shadowmetric.ops.grid_rows import pair_dots_of, pair_squared
from shadowmetric.ops.memory import Bytes, Cost, each, gathering_phases, streaming_phases, width_of
from shadowmetric.ops.pair_measures import Measure, pair_measures
from shadowmetric.ops.rows import working_dtype
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.ops.slot_pairs import SlotPairs, slot_totals
from shadowmetric.types import Hinge, Miner, Scalar, Triplets, TripletValues

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
MEASURED = 128.0  # bytes of a triplet while its pairs are measured in float64


class MinedSettings(TypedDict, total=False):
    """What every loss of triplets can be told besides its margin."""

    miner: MinerName | Miner
    normalize: bool
    reduction: Reduction
    slots: int | None
    fused: bool
    scratch_bytes: int
    debug: bool


def triplet_values(
    batch: CheckedBatch, mined: Mined, measure: Measure, hinge: Hinge, *, normalize: bool = True
) -> TripletValues:
    """Return hinge(measure(a, p), measure(a, n)) for each triplet; distances in `mined` are squared, of unit rows."""
    anchor, positive, negative = mined.triplets
    squared = torch.cat(mined.squared) if mined.squared is not None and normalize else None
    values = pair_measures(
        batch.embeddings,
        batch.references,
        torch.cat([anchor, anchor]),
        torch.cat([positive, negative]),
        measure,
        batch.grids(normalize=normalize),
        squared=squared,
    )
    return hinge(*values.chunk(2))


def slot_pairs_of(batch: CheckedBatch, mined: SlotTriplets, *, normalize: bool, known: bool) -> SlotPairs:
    """Return the pairs of the triplets in all places, positives before negatives; zeros where there is no triplet.

    known: the squared distances of `mined` are those that the loss compares.
    """
    real = mined.real
    other = torch.cat([mined.positive, mined.negative], 1)
    left, right = batch.grids(normalize=normalize)
    if normalize:
        if known:
            both = torch.cat([torch.where(real, mined.closer, 0.0), torch.where(real, mined.farther, 0.0)], 1)
        else:
            row = torch.arange(len(other), device=other.device)[:, None].expand_as(other)
            both = pair_squared(left, right, row.reshape(-1), other.reshape(-1)).view_as(other)
        one = torch.ones((), dtype=both.dtype, device=both.device)
        return SlotPairs(other, both.div_(-2).add_(1), (one, one), (left.length, right.length))
    row = torch.arange(len(other), device=other.device)[:, None].expand_as(other)
    dots = pair_dots_of(left, right, row.reshape(-1), other.reshape(-1)).view_as(other)
    return SlotPairs(other, dots, (left.square[:, None], right.square[other]), None)


def hinge_at(margin: float) -> Hinge:
    """Return max(closer - farther + margin, 0) as a function."""
    check_margin(margin)
    return lambda closer, farther: torch.relu(closer - farther + margin)


def loss_of_triplets(
    embeddings: Tensor,
    triplets: Sequence[Tensor],
    measure: Measure,
    hinge: Hinge,
    *,
    normalize: bool,
    reduction: Reduction,
    references: Tensor | None,
) -> Scalar:
    """Return the reduced values of given triplets; zero, with a graph, if there are none."""
    check_rows(embeddings)
    check_reduction(reduction)
    batch = CheckedBatch(embeddings, torch.empty(0), references)
    checked = check_triplets(triplets, len(embeddings), len(batch.others), embeddings.device)
    values = triplet_values(batch, Mined(checked), measure, hinge, normalize=normalize)
    return reduce_totals(totals_of(values), reduction).value()


class MinedLoss(SummedLoss):
    """A loss of triplets: settings, mining and reduction. Subclasses give `measure` and `hinge`.

    margin: in the unit of what the loss compares; its `repr` says which.
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
    numbers_kept = 6  # of a triplet: two slopes of each pair, and what the hinge saves for backward

    def __init__(
        self,
        margin: float = 0.2,
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
        check_margin(margin)
        self.margin, self.normalize = float(margin), normalize
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
        width = width_of(dtype)
        if is_exhaustive(self.miner):
            rows = Bytes(row=80.0 + 8 * width.working, reference=64.0)
            kept = Bytes(row=40.0 + width.working, reference=16.0 + (8 + width.working if references else 0))
            parts = streaming_phases(
                self.scratch_bytes, dtype, STREAMED, normalize=self.normalize, exact=True, references=references
            )
            phases = [rows + part for part in parts]
        elif isinstance(self.miner, TripletMiner):
            unit = self.miner.triplet_for_each
            triplet = 32.0 + (self.numbers_kept + (0 if self.normalize else 2)) * width.working
            kept = Bytes(row=8.0, reference=8.0 if references else 0.0) + each(unit, triplet)
            pairs = each(unit, triplet + MEASURED)
            mining = self.miner.memory(dtype, references=references).phases
            parts = gathering_phases(dtype, normalize=self.normalize, references=references)
            phases = [*mining, *(pairs + part for part in parts)]
        else:
            raise ValueError(
                f"{type(self.miner).__name__} does not say what it takes; give one of {', '.join(MINERS)}."
            )
        return Cost(kept, (*phases, NAMING)) if references else Cost(kept, tuple(phases)).own()

    def sums_of_batch(self, batch: CheckedBatch, triplets: Sequence[Tensor] | None) -> Sums:
        """Return the sums over the triplets of its own mining, or over given ones."""
        if triplets is None and is_exhaustive(self.miner):
            totals = all_triplet_totals(
                batch,
                self.miner,  # pyright: ignore[reportArgumentType]
                self.measure,
                self.hinge,
                normalize=self.normalize,
                slots=self.slots,
                debug=self.debug,
                scratch_bytes=self.scratch_bytes,
            )
            return reduce_totals(totals, self.reduction)
        if triplets is None and isinstance(self.miner, TripletMiner):
            slots = arrange_slots(batch, self.slots, self.scratch_bytes, fused=self.fused, debug=self.debug)
            if slots is not None:
                return self._sums_in_slots(batch, self.miner, slots)
        chosen, squared = mine(self.miner, batch) if triplets is None else (triplets, None)
        embeddings, device = batch.embeddings, batch.embeddings.device
        chosen = check_triplets(chosen, len(embeddings), len(batch.others), device, debug=self.debug)
        values = triplet_values(batch, Mined(chosen, squared), self.measure, self.hinge, normalize=self.normalize)
        return reduce_totals(totals_of(values), self.reduction)

    def _sums_in_slots(self, batch: CheckedBatch, miner: TripletMiner, slots: Slots) -> Sums:
        """Return the sums over the triplets that are mined in slots."""
        mined = miner.mine_in_slots(batch, slots)
        known = self.normalize and miner.comparison.unit_rows
        if known and self.slopes is not None and is_small(batch):
            return small_sums(batch, mined, self.slopes, self.margin, self.reduction)
        mined = mined.to_tensors()
        real, mean_nonzero = mined.real, self.reduction == "mean_nonzero"
        dtype = working_dtype(batch.embeddings.dtype, batch.others.dtype)

        def reduce(dots: Tensor, square: Tensor, other_square: Tensor) -> tuple[Tensor, Tensor]:
            closer, farther = self.measure(dots, square, other_square).to(dtype).chunk(2, 1)
            values = torch.where(real, self.hinge(closer, farther), 0.0)
            return values.sum(), (values > 0 if mean_nonzero else real).sum()

        pairs = slot_pairs_of(batch, mined, normalize=self.normalize, known=known)
        total, count = slot_totals(batch.embeddings, batch.references, pairs._replace(fused=self.fused), reduce)
        return sums_of((total, 0 if self.reduction == "sum" else count))

    def describe_settings(self) -> str:
        """Return the settings as text, the margin with its unit."""
        shape = f"normalize={self.normalize}, reduction={self.reduction!r}"
        return f"margin={self.margin:g} ({UNIT_NAMES[self.unit]}), miner={self.miner}, {shape}"


def mine(miner: Miner, batch: CheckedBatch) -> Mined:
    """Call a miner, ours or another library's; the latter may pair an anchor with itself, which is left out."""
    if isinstance(miner, TripletMiner):
        mined = miner.mine(batch)
        return mined if miner.comparison.unit_rows else Mined(mined.triplets)
    embeddings, references, anchors_at = batch.embeddings, batch.references, batch.anchors_at
    if references is None:
        return Mined(Triplets(*miner(embeddings.detach(), batch.labels)))
    triplets = Triplets(*miner(embeddings.detach(), batch.labels, references.detach(), batch.reference_labels))
    if not isinstance(anchors_at, int):
        return Mined(triplets)
    other = triplets.positive != triplets.anchor + anchors_at
    return Mined(Triplets(*(numbers[other] for numbers in triplets)))
