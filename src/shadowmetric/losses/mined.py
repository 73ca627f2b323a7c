"""What losses of triplets share: choose triplets, measure both pairs of each, reduce.

    value(a, p, n) = hinge( measure(a, p), measure(a, n) )

A loss gives the two functions; both work on lists of pairs and on blocks of rows. So each loss has
two forms with one formula. Mined triplets: `pair_dots` of their pairs, a few numbers per triplet.
Exhaustive mining (miner="all", negatives="all"): `row_stream`, one partner at a time, and no list
of triplets ever exists.

Memory: beyond the embeddings, a few numbers per triplet, or the scratch.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypedDict

import torch
from torch import Tensor

from shadowmetric.checks import ELSEWHERE, check_choice, check_margin, check_scratch, check_triplets
from shadowmetric.losses.distances import compared, squared_distance
from shadowmetric.losses.sums import SummedLoss, Sums, sums_of
from shadowmetric.mining import AllMiner, BatchHardMiner, HardMiner, SemiHardMiner
from shadowmetric.mining.classes import group_by_class, partner_columns
from shadowmetric.mining.given import NAMING, Given, GivenMiner
from shadowmetric.mining.pairs import LabelPairs
from shadowmetric.mining.window import upper_end
from shadowmetric.ops.memory import Bytes, Cost, each, gathered, streamed, width_of
from shadowmetric.ops.pair_dots import pair_dots
from shadowmetric.ops.row_lengths import row_lengths
from shadowmetric.ops.row_stream import Term, row_stream
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import Embeddings, Miner, References, Triplets, TripletValues

Measure = Callable[[Tensor, Tensor, Tensor], Tensor]
Hinge = Callable[[Tensor, Tensor], Tensor]

MINERS: dict[str, Callable[[float, int], Miner]] = {
    "hard": lambda margin, scratch: HardMiner(scratch_bytes=scratch),
    "semi_hard": lambda margin, scratch: SemiHardMiner(margin, scratch_bytes=scratch),
    "batch_hard": lambda margin, scratch: BatchHardMiner(scratch_bytes=scratch),
    "all": lambda margin, scratch: AllMiner(),
}
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
    embeddings: Embeddings,
    triplets: Triplets,
    measure: Measure,
    hinge: Hinge,
    *,
    normalize: bool = True,
    references: References | None = None,
    squared: tuple[Tensor, Tensor] | None = None,
) -> TripletValues:
    """Return hinge(measure(a, p), measure(a, n)) for each triplet.

    squared: the squared distances on unit rows, to the positive and to the negative, if mining knows them.
    """
    anchor, positive, negative = triplets
    length = row_lengths(embeddings)
    other_length = length if references is None else row_lengths(references)
    first, second = torch.cat([anchor, anchor]), torch.cat([positive, negative])
    known = None
    if squared is not None:
        known = (1 - torch.cat(squared) / 2) * (length.detach()[first] * other_length.detach()[second])
    dots = pair_dots(embeddings, references, first, second, known)
    to_positive, to_negative = dots.chunk(2)
    closer = measure(*compared(to_positive, length[anchor], other_length[positive], normalize=normalize))
    farther = measure(*compared(to_negative, length[anchor], other_length[negative], normalize=normalize))
    return hinge(closer, farther)


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
    embeddings, references = given.embeddings, given.references
    pairs = LabelPairs(given)
    classes = group_by_class(given.labels, given.reference_labels)
    place = torch.argsort(classes.order)  # where each batch row stands in the arrangement
    partners = classes.partners[place].tolist()
    length = row_lengths(embeddings)

    def terms(start: int, stop: int) -> list[Term]:
        positive, negative = pairs.masks(start, stop)
        here = place[start:stop]

        def partner_term(slot: int) -> Term:
            column = partner_columns(classes, range(slot, slot + 1), here)[0]
            partner = classes.reference_order[column.clamp_max(len(classes.reference_order) - 1)][:, None]
            real = (classes.partners[here] > slot)[:, None] & positive.gather(
                1, partner
            )  # a row without partner has none

            def term(dots: Tensor, row_length: Tensor, column_length: Tensor) -> Tensor:
                row_length, column_length = row_length[:, None], column_length[None]
                partner_length = column_length.expand_as(dots).gather(1, partner)
                chosen = real & negative
                if isinstance(miner, SemiHardMiner):
                    chosen = chosen & _inside(miner, dots, row_length, column_length, partner)
                closer = measure(*compared(dots.gather(1, partner), row_length, partner_length, normalize=normalize))
                farther = measure(*compared(dots, row_length, column_length, normalize=normalize))
                value = torch.where(chosen, hinge(closer, farther), 0.0)
                return torch.stack([value.sum(1), chosen.sum(1), (value > 0).sum(1)], 1)

            return term

        return [partner_term(slot) for slot in range(max(partners[start:stop]))]

    rows = row_stream(
        embeddings,
        given.others,
        length,
        length if references is None else row_lengths(references),
        terms,
        outputs=3,
        temporaries=STREAMED,
        scratch_bytes=scratch_bytes,
    )
    return Totals(*rows.sum(0))


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
    numbers_kept = 13  # of a triplet, by what measure and hinge save for backward

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

    def measure(self, dots: Tensor, length: Tensor, other_length: Tensor) -> Tensor:
        """Return what is compared, from dot products and lengths."""
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
            phases = [rows + part for part in streamed(self.scratch_bytes, width, STREAMED, references=references)]
        elif isinstance(self.miner, GivenMiner):
            unit = self.miner.triplet_for_each
            triplet = 56.0 + self.numbers_kept * width.working
            rows = Bytes(row=width.working, reference=width.working if references else 0.0)
            kept = rows + each(unit, triplet)
            pairs = each(unit, triplet + 4 * width.working)
            mining = self.miner.memory(dtype, references=references).phases
            phases = [*mining, *(pairs + part for part in gathered(width, references=references))]
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
        squared = None
        if triplets is None and isinstance(self.miner, SemiHardMiner):
            mined = self.miner.mine(given)
            triplets, squared = mined.triplets, mined.squared if self.miner.normalize else None
        elif triplets is None:
            triplets = mine(self.miner, given)
        embeddings, device = given.embeddings, given.embeddings.device
        values = triplet_values(
            embeddings,
            check_triplets(triplets, len(embeddings), len(given.others), device, debug=self.debug),
            self.measure,
            self.hinge,
            normalize=self.normalize,
            references=given.references,
            squared=squared,
        )
        return reduced(totals_of(values), self.reduction)

    def said_settings(self) -> str:
        """Return the settings as text, the margin with its unit."""
        unit = f" ({self.unit})" if self.unit else ""
        shape = f"normalize={self.normalize}, reduction={self.reduction!r}"
        return f"margin={self.margin:g}{unit}, miner={self.miner}, {shape}"


def exhaustive(miner: Miner) -> bool:
    """Return whether a miner takes every triplet there is, so that a loss should stream them."""
    return isinstance(miner, AllMiner) or (isinstance(miner, SemiHardMiner) and miner.negatives == "all")


def mine(miner: Miner, given: Given) -> Sequence[Tensor]:
    """Call a miner, ours or another library's; the latter may pair an anchor with itself, which is left out."""
    if isinstance(miner, GivenMiner):
        return miner.choose(given)
    embeddings, labels, references, reference_labels, anchors_at = given
    if references is None:
        return miner(embeddings.detach(), labels)
    found = miner(embeddings.detach(), labels, references.detach(), reference_labels)
    if anchors_at is None or anchors_at == ELSEWHERE:
        return found
    other = found[1] != found[0] + anchors_at
    return [numbers[other] for numbers in found]


def totals_of(values: TripletValues) -> Totals:
    """Return the totals of a list of values."""
    return Totals(values.sum(), values.new_full((), len(values)), (values > 0).sum())


def reduced(totals: Totals, reduction: str) -> Sums:
    """Return the sums of the mean, sum or mean of what is above zero."""
    if reduction == "sum":
        return sums_of((totals.total, 0))
    return sums_of((totals.total, totals.triplets if reduction == "mean" else totals.above_zero))


@torch.no_grad()
def _inside(miner: SemiHardMiner, dots: Tensor, length: Tensor, other_length: Tensor, partner: Tensor) -> Tensor:
    """Return which columns lie in the window of the partner."""
    squared = squared_distance(*compared(dots, length, other_length, normalize=miner.normalize))
    floor = squared.gather(1, partner)
    return (squared > floor) & (squared < upper_end(floor, miner.margin, miner.unit))
