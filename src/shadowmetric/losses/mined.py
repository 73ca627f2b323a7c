"""What losses of triplets share: choose triplets, measure both pairs of each, reduce.

    value(a, p, n) = hinge( measure(a, p), measure(a, n) )

A loss gives the two functions; both work on lists of pairs and on blocks of rows. So each loss has
two forms with one formula. Mined triplets: `pair_measures` of their pairs, a few numbers per triplet.
Exhaustive mining (miner="all", negatives="all"): `row_stream`, one partner at a time, and no list
of triplets ever exists.

Memory: beyond the embeddings, a few numbers per triplet, or the scratch.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypedDict

import torch
from torch import Tensor

from shadowmetric.checks import ELSEWHERE, check_choice, check_margin, check_scratch, check_triplets
from shadowmetric.losses.distances import squared_distance
from shadowmetric.losses.sums import SummedLoss, Sums, sums_of
from shadowmetric.mining import AllMiner, BatchHardMiner, HardMiner, SemiHardMiner
from shadowmetric.mining.classes import group_by_class, partner_columns
from shadowmetric.mining.given import NAMING, Given, GivenMiner, Mined
from shadowmetric.mining.pairs import LabelPairs
from shadowmetric.mining.window import upper_end
from shadowmetric.ops.grid_rows import squared_rows
from shadowmetric.ops.memory import Bytes, Cost, each, gathered, streamed, width_of
from shadowmetric.ops.pair_measures import Measure, pair_measures
from shadowmetric.ops.row_stream import Stream, Term, row_stream
from shadowmetric.ops.rows import working_dtype
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import Miner, Triplets, TripletValues

Hinge = Callable[[Tensor, Tensor], Tensor]

MINERS: dict[str, Callable[[float, int], Miner]] = {
    "hard": lambda margin, scratch: HardMiner(scratch_bytes=scratch),
    "semi_hard": lambda margin, scratch: SemiHardMiner(margin, scratch_bytes=scratch),
    "batch_hard": lambda margin, scratch: BatchHardMiner(scratch_bytes=scratch),
    "all": lambda margin, scratch: AllMiner(),
}
MEASURED = 128.0  # bytes of a triplet while its pairs are measured in float64
STREAMED = 14.0  # blocks that a streamed triplet term makes
REDUCTIONS = ("mean", "sum", "mean_nonzero")


class MinedSettings(TypedDict, total=False):
    """What every loss of triplets can be told besides its margin."""

    miner: str | Miner
    normalize: bool
    reduction: str
    scratch_bytes: int
    debug: bool


class Totals(NamedTuple):
    """Sum of the triplets' values, how many triplets there are, how many have a value above zero."""

    total: Tensor
    triplets: Tensor
    above_zero: Tensor


def triplet_values(
    given: Given, mined: Mined, measure: Measure, hinge: Hinge, *, normalize: bool = True
) -> TripletValues:
    """Return hinge(measure(a, p), measure(a, n)) for each triplet; the distances of `mined` are of unit rows."""
    anchor, positive, negative = mined.triplets
    squared = torch.cat(mined.squared) if mined.squared is not None and normalize else None
    values = pair_measures(
        given.embeddings,
        given.references,
        torch.cat([anchor, anchor]),
        torch.cat([positive, negative]),
        measure,
        given.grids(normalize=normalize),
        squared=squared,
    )
    return hinge(*values.chunk(2))


def all_triplet_totals(
    given: Given,
    miner: AllMiner | SemiHardMiner,
    measure: Measure,
    hinge: Hinge,
    *,
    normalize: bool = True,
    scratch_bytes: int = SCRATCH_BYTES,
) -> Totals:
    """Return the totals over every triplet the miner would list, without the list."""
    pairs = LabelPairs(given)
    classes = group_by_class(given.labels, given.reference_labels)
    place = torch.argsort(classes.order)  # where each batch row stands in the arrangement
    partners = classes.partners[place].tolist()

    rows, others = given.embeddings, given.references  # not given: a graph must not keep the rows on the grid

    def terms(start: int, stop: int) -> list[Term]:
        positive, negative = pairs.masks(start, stop)
        here = place[start:stop]
        mined_at = None  # squared distances that the miner compares, where the loss compares others
        if isinstance(miner, SemiHardMiner) and miner.normalize != normalize:
            mined_at = squared_rows(Given(rows, pairs.labels, others).grids(normalize=miner.normalize), start, stop)

        def partner_term(slot: int) -> Term:
            column = partner_columns(classes, range(slot, slot + 1), here)[0]
            partner = classes.reference_order[column.clamp_max(len(classes.reference_order) - 1)][:, None]
            real = (classes.partners[here] > slot)[:, None] & positive.gather(
                1, partner
            )  # a row without partner has none

            def term(dots: Tensor, square: Tensor, other_square: Tensor) -> Tensor:
                chosen = real & negative
                if isinstance(miner, SemiHardMiner):
                    squared = squared_distance(dots, square, other_square) if mined_at is None else mined_at
                    chosen = chosen & _inside(miner, squared.detach(), partner)
                closer = measure(dots.gather(1, partner), square, other_square[partner])
                farther = measure(dots, square, other_square)
                value = torch.where(chosen, hinge(closer, farther), 0.0)
                return torch.stack([value.sum(1), chosen.sum(1), (value > 0).sum(1)], 1)

            return term

        return [partner_term(slot) for slot in range(max(partners[start:stop]))]

    stream = Stream(normalize, exact=True, outputs=3, temporaries=STREAMED, scratch_bytes=scratch_bytes)
    totals = row_stream(rows, others, terms, stream).sum(0)
    return Totals(*totals.to(working_dtype(rows.dtype, given.others.dtype)))


class MinedLoss(SummedLoss):
    """A loss of triplets: settings, mining and reduction. Subclasses give `measure` and `hinge`.

    margin: in the unit of what the loss compares; its `repr` says which.
    miner: "hard", "semi_hard", "batch_hard" or "all", which take the loss's margin, or a miner object.
    normalize: compare unit rows; False compares rows as they are. Miners given by name mine on unit rows
    all the same, as the paper does; give a miner object with normalize=False to mine on rows as they are.
    reduction: "mean" or "sum" over triplets, or "mean_nonzero" over those with a value above zero.
    scratch_bytes: what mining and streaming may use beyond inputs and results.
    debug: check values (finite, in range) on any device; on a CPU they always are.
    """

    unit: str
    numbers_kept = 6  # of a triplet: two slopes of each pair, and what the hinge saves for backward

    def __init__(
        self,
        margin: float = 0.2,
        *,
        miner: str | Miner = "semi_hard",
        normalize: bool = True,
        reduction: str = "mean",
        scratch_bytes: int = SCRATCH_BYTES,
        debug: bool = False,
    ):
        super().__init__()
        check_margin(margin)
        if isinstance(miner, str):
            check_choice(miner, tuple(MINERS), "miner")
        elif not callable(miner):
            raise ValueError(f"miner is {miner!r}; give one of {', '.join(MINERS)} or a miner object.")
        self.margin = float(margin)
        self.miner: Miner = MINERS[miner](margin, scratch_bytes) if isinstance(miner, str) else miner
        self.normalize = normalize
        self.reduction = check_choice(reduction, REDUCTIONS, "reduction")
        self.scratch_bytes = check_scratch(scratch_bytes)
        self.debug = debug or getattr(self.miner, "debug", False)

    def measure(self, dots: Tensor, square: Tensor, other_square: Tensor) -> Tensor:
        """Return what is compared, from dot products and squared lengths."""
        raise NotImplementedError

    def hinge(self, closer: Tensor, farther: Tensor) -> Tensor:
        """Return the value of triplets from what was measured."""
        raise NotImplementedError

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return the bytes of mining and of the triplets' pairs; where every triplet counts, of streaming them."""
        width = width_of(dtype)
        if exhaustive(self.miner):
            rows = Bytes(row=80.0 + 8 * width.working, reference=64.0)
            kept = Bytes(row=40.0 + width.working, reference=16.0 + (8 + width.working if references else 0))
            parts = streamed(
                self.scratch_bytes, dtype, STREAMED, normalize=self.normalize, exact=True, references=references
            )
            phases = [rows + part for part in parts]
        elif isinstance(self.miner, GivenMiner):
            unit = self.miner.triplet_for_each
            triplet = 32.0 + (self.numbers_kept + (0 if self.normalize else 2)) * width.working
            kept = Bytes(row=8.0, reference=8.0 if references else 0.0) + each(unit, triplet)
            pairs = each(unit, triplet + MEASURED)
            mining = self.miner.memory(dtype, references=references).phases
            parts = gathered(dtype, normalize=self.normalize, references=references)
            phases = [*mining, *(pairs + part for part in parts)]
        else:
            raise ValueError(
                f"{type(self.miner).__name__} does not say what it takes; give one of {', '.join(MINERS)}."
            )
        return Cost(kept, (*phases, NAMING)) if references else Cost(kept, tuple(phases)).own()

    def sums_of_given(self, given: Given, triplets: Sequence[Tensor] | None) -> Sums:
        """Return the sums over the triplets of its own mining, or over given ones."""
        if triplets is None and exhaustive(self.miner):
            totals = all_triplet_totals(
                given,
                self.miner,  # pyright: ignore[reportArgumentType]
                self.measure,
                self.hinge,
                normalize=self.normalize,
                scratch_bytes=self.scratch_bytes,
            )
            return reduced(totals, self.reduction)
        chosen, squared = mine(self.miner, given) if triplets is None else (triplets, None)
        embeddings, device = given.embeddings, given.embeddings.device
        chosen = check_triplets(chosen, len(embeddings), len(given.others), device, debug=self.debug)
        values = triplet_values(given, Mined(chosen, squared), self.measure, self.hinge, normalize=self.normalize)
        return reduced(totals_of(values), self.reduction)

    def said_settings(self) -> str:
        """Return the settings as text, the margin with its unit."""
        unit = f" ({self.unit})" if self.unit else ""
        shape = f"normalize={self.normalize}, reduction={self.reduction!r}"
        return f"margin={self.margin:g}{unit}, miner={self.miner}, {shape}"


def exhaustive(miner: Miner) -> bool:
    """Return whether a miner takes every triplet there is, so that a loss should stream them."""
    return isinstance(miner, AllMiner) or (isinstance(miner, SemiHardMiner) and miner.negatives == "all")


def mine(miner: Miner, given: Given) -> Mined:
    """Call a miner, ours or another library's; the latter may pair an anchor with itself, which is left out."""
    if isinstance(miner, GivenMiner):
        mined = miner.mine(given)
        return mined if getattr(miner, "normalize", True) else Mined(mined.triplets)
    embeddings, references, anchors_at = given.embeddings, given.references, given.anchors_at
    if references is None:
        return Mined(Triplets(*miner(embeddings.detach(), given.labels)))
    found = Triplets(*miner(embeddings.detach(), given.labels, references.detach(), given.reference_labels))
    if anchors_at is None or anchors_at == ELSEWHERE:
        return Mined(found)
    other = found.positive != found.anchor + anchors_at
    return Mined(Triplets(*(numbers[other] for numbers in found)))


def totals_of(values: TripletValues) -> Totals:
    """Return the totals of a list of values."""
    return Totals(values.sum(), values.new_full((), len(values)), (values > 0).sum())


def reduced(totals: Totals, reduction: str) -> Sums:
    """Return the sums of the mean, sum or mean of what is above zero."""
    if reduction == "sum":
        return sums_of((totals.total, 0))
    return sums_of((totals.total, totals.triplets if reduction == "mean" else totals.above_zero))


def _inside(miner: SemiHardMiner, squared: Tensor, partner: Tensor) -> Tensor:
    """Return which columns lie in the window of the partner."""
    floor = squared.gather(1, partner)
    return (squared > floor) & (squared < upper_end(floor, miner.margin, miner.unit))
