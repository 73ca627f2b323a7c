"""Distance-weighted sampling (Wu et al. 2017, Sec. 3): negatives at all distances, and not only the usual one.

Points spread evenly over a sphere of n dimensions lie mostly at distance sqrt(2): q(d) = d^(n-2) (1 - d^2/4)^((n-3)/2).
For each anchor and positive one negative is drawn, with a probability of

    P(negative at distance d)  ~  1 / q(max(d, nearest))   if d < farthest,   else 0

Distances are of unit rows. If all negatives of an anchor are too far, each of them is as likely. `nearest` bounds the
weights, as the authors' code does; below sqrt(2) they never rise with the distance.

The weights of a row are whole numbers, 2^30 for its nearest negative, made from exact distances by products, quotients
and roots alone; so their running sums have no rounding, and the number that is drawn lies between the same two of them
on every machine. It depends on the seed, the labels of all rows that are compared with, and the row numbers of anchor
and positive: blocks, ranks and devices draw the same. Another batch has other labels, or give another seed.

Memory: whole rows of distances and weights within the scratch, and a few numbers for each positive pair.
"""

from dataclasses import KW_ONLY, dataclass, field

import torch
from torch import Tensor

from shadowmetric.checks import check_margin, check_scratch
from shadowmetric.mining.checked_batch import NAMING, CheckedBatch, Mined
from shadowmetric.mining.miner import TripletMiner
from shadowmetric.mining.pairs import pairs_of
from shadowmetric.mining.slots import Slots, SlotTriplets
from shadowmetric.ops.arrays import to_tensor
from shadowmetric.ops.exact_blocks import Sides, Stream
from shadowmetric.ops.memory import Bytes, Cost, each, streaming_phases
from shadowmetric.ops.row_lengths import root_of
from shadowmetric.ops.runs import NEVER
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import Relation, Triplets

LARGEST = 2.0**30  # the weight of a row's nearest negative
TEMPORARIES = 8.0
ROOT_OF_2 = 2.0**0.5
GOLDEN, FIRST, SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685  # of splitmix64


@dataclass(frozen=True)
class DistanceWeightedMiner(TripletMiner):
    """Draw a negative for each positive pair, by distance.

    nearest: negatives that are nearer than this distance weigh as those at it. farthest: others are not drawn.
    seed: another one draws others from the same batch.
    """

    nearest: float = 0.5
    farthest: float = 1.4
    _: KW_ONLY
    seed: int = 0
    scratch_bytes: int = field(default=SCRATCH_BYTES, repr=False)
    debug: bool = field(default=False, repr=False)

    def __post_init__(self):
        check_margin(self.nearest, name="nearest")
        check_scratch(self.scratch_bytes)
        if not self.nearest < self.farthest <= ROOT_OF_2:
            raise ValueError(f"farthest is {self.farthest!r}; it must be above nearest, and at most the root of 2.")

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return the bytes of streaming rows of weights, and of the triplets."""
        rows = Bytes(row=96.0, reference=96.0) + each("positive", 120.0)
        phases = streaming_phases(self.scratch_bytes, dtype, TEMPORARIES, exact=True, references=references)
        peaks = tuple(rows + phase for phase in phases)
        kept = each("positive", 40.0)
        return Cost(kept, (*peaks, NAMING)) if references else Cost(kept, peaks).own()

    def mine_in_slots(self, batch: CheckedBatch, slots: Slots) -> SlotTriplets:
        """Return the triplet of each place, without a read on the host."""
        positive, real = to_tensor(slots.positive), to_tensor(slots.real)
        negative, closer, farther = self.draw(batch, positive, real)
        return SlotTriplets(positive, negative, closer, farther)

    def mine_by_class(self, batch: CheckedBatch) -> Mined:
        """Return the triplets as a list."""
        places = pairs_of(batch).positives()
        positive, real = places.of(0, len(batch.labels), places.slots(None))
        negative, closer, farther = self.draw(batch, positive, real)
        rows, slots = (farther < NEVER).nonzero(as_tuple=True)
        triplets = Triplets(rows, positive[rows, slots], negative[rows, slots])
        return Mined(triplets, (closer[rows, slots], farther[rows, slots]))

    @torch.no_grad()
    def draw(self, batch: CheckedBatch, positive: Tensor, real: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return for each place its negative, and the squared distances of positive and negative: (rows, slots).

        A place without a triplet has a negative at NEVER.
        """
        pairs, chance = pairs_of(batch), self._chances(batch, positive)
        stream = Stream(
            True,
            squared=True,
            exact=True,
            reads_squares=False,
            temporaries=TEMPORARIES,
            scratch_bytes=self.scratch_bytes,
        )
        sides = Sides(batch.embeddings, batch.references, stream, batch.grids(normalize=True))
        found = []
        for top, bottom in sides.spans():
            squared = sides.block(top, bottom)
            weights = self._weights(squared, ~pairs.not_negative(top, bottom), batch.embeddings.shape[1])
            sums = weights.cumsum(1)
            total = sums[:, -1:]
            wanted = (chance[top:bottom] * total).long().minimum(total - 1)
            negative = torch.searchsorted(sums, wanted, right=True).clamp_max(squared.shape[1] - 1)
            exists = real[top:bottom] & (total > 0)
            farther = torch.where(exists, squared.gather(1, negative), NEVER)
            found.append((negative, squared.gather(1, positive[top:bottom]), farther))
        negative, closer, farther = (torch.cat(part) for part in zip(*found, strict=True))
        return negative, closer, farther

    def _weights(self, squared: Tensor, negative: Tensor, dim: int) -> Tensor:
        """Return the weights of whole rows: int64, 0 of what is no negative."""
        near = negative & (squared < self.farthest**2)
        none = ~near.any(1, keepdim=True)
        value = squared.clamp_min(self.nearest**2)
        least = torch.where(near, value, NEVER).amin(1, keepdim=True)
        least = torch.where(none, 1.0, least)
        value = torch.where(near, value, least)
        ratio = least / value
        power = whole_power(ratio * ((1 - least / 4) / (1 - value / 4)), dim - 3) * ratio  # (q of the least / q)^2
        weights = (root_of(power) * LARGEST).round_().long()
        return torch.where(none, negative.long(), weights * near)

    def _chances(self, batch: CheckedBatch, positive: Tensor) -> Tensor:
        """Return a number in [0, 1) for each place, by the numbers of anchor and positive among all rows."""
        labels = batch.labels if batch.reference_labels is None else batch.reference_labels
        if isinstance(labels, Relation):
            labels = _numbers_of(labels)
        first = batch.anchors_at if isinstance(batch.anchors_at, int) else 0
        place = torch.arange(len(labels), device=labels.device)
        seed = (self.seed * FIRST + 2**63) % 2**64 - 2**63  # as an int64 that has wrapped around
        salt = mix_bits(mix_bits(labels + seed) + place * GOLDEN).sum()
        row = torch.arange(first, first + len(positive), device=labels.device)[:, None]
        bits = mix_bits(mix_bits(mix_bits(salt + self.seed) + row * GOLDEN) + positive * GOLDEN)
        return ((bits >> 11) & (2**53 - 1)).to(torch.float64) * 2.0**-53


def _numbers_of(relation: Relation) -> Tensor:
    """Return an int64 for each row, equal where the same is known of two rows."""
    known = relation.rows.long().view(len(relation), -1)
    column = torch.arange(known.shape[1], device=known.device)
    return mix_bits(known + column * GOLDEN).sum(1)


def mix_bits(numbers: Tensor) -> Tensor:
    """Return 64 mixed bits for each int64 (the finalizer of splitmix64), which wrap around alike everywhere."""
    numbers = numbers + GOLDEN
    numbers = (numbers ^ (_shift_down(numbers, 30))) * FIRST
    numbers = (numbers ^ (_shift_down(numbers, 27))) * SECOND
    return numbers ^ _shift_down(numbers, 31)


def _shift_down(numbers: Tensor, places: int) -> Tensor:
    """Return the bits moved down, zeros filling up."""
    return (numbers >> places) & (2 ** (64 - places) - 1)


def whole_power(values: Tensor, exponent: int) -> Tensor:
    """Return values^exponent by products alone, in one order; of few dimensions 1 / that."""
    if exponent < 0:
        return whole_power(values, -exponent).reciprocal()
    result = torch.ones_like(values)
    while exponent:
        if exponent & 1:
            result = result * values
        exponent >>= 1
        values = values * values if exponent else values
    return result
