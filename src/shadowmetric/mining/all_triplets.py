"""Every triplet: each (anchor, positive) pair with each negative of the anchor.

There are about batch x per-class x batch of them. As a list they are only for small batches; a loss
with `miner="all"` streams the same triplets and never makes the list.
"""

from dataclasses import KW_ONLY, dataclass, field

import torch
from torch import Tensor

from shadowmetric.mining.checked_batch import NAMING, CheckedBatch, Mined
from shadowmetric.mining.miner import TripletMiner
from shadowmetric.mining.ordered import join_triplets, no_triplets
from shadowmetric.mining.pairs import RelationPairs
from shadowmetric.ops.memory import Bytes, Cost
from shadowmetric.types import Relation, Triplets

MOST_TRIPLETS = 2**30  # 24 GiB of row numbers


@dataclass(frozen=True)
class AllMiner(TripletMiner):
    """Choose every triplet of a batch."""

    _: KW_ONLY
    debug: bool = field(default=False, repr=False)

    @property
    def fits_slots(self) -> bool:
        """Return False: a pair has many negatives."""
        return False

    @property
    def triplet_for_each(self) -> str:
        """Return "triplet": a list of all."""
        return "triplet"

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return twice what the triplets take: the lists of all anchors, and the one of all."""
        peak = Bytes(row=120.0, reference=64.0, triplet=50.0)
        return Cost(Bytes(triplet=24.0), (peak, NAMING) if references else (peak.own(),))

    @torch.no_grad()
    def mine(self, batch: CheckedBatch, slots: int | None = None) -> Mined:
        """Return the triplets of a checked batch."""
        if isinstance(batch.labels, Relation):
            return Mined(_triplets_of_relation(batch))
        (labels, others), names = batch.class_labels(), batch.names()
        others = labels if others is None else others
        _check_count(labels, others, own=names is None)
        parts = [no_triplets(labels.device)]
        for anchor, label in enumerate(labels):
            same = others == label
            negative = (~same).nonzero()[:, 0]
            if names is None:
                same[anchor] = False
            else:
                same &= names[1] != names[0][anchor]
            parts.append(_triplets_of(anchor, same.nonzero()[:, 0], negative))
        return Mined(join_triplets(parts))  # in order: anchors ascend, and so do the rows of a product of lists


def _triplets_of(anchor: int, positive: Tensor, negative: Tensor) -> Triplets:
    """Return all triplets of an anchor."""
    pairs = torch.cartesian_prod(positive, negative).view(-1, 2)
    return Triplets(torch.full_like(pairs[:, 0], anchor), pairs[:, 0], pairs[:, 1])


def _triplets_of_relation(batch: CheckedBatch) -> Triplets:
    """Return every triplet that a relation makes: its masks twice, first to count."""
    pairs, rows = RelationPairs(batch), len(batch.labels)
    masks = (pairs.masks(anchor, anchor + 1) for anchor in range(rows))
    _refuse_many(sum(int(positive.sum()) * int(negative.sum()) for positive, negative in masks))
    parts = [no_triplets(batch.labels.device)]
    for anchor in range(rows):
        positive, negative = (mask[0].nonzero()[:, 0] for mask in pairs.masks(anchor, anchor + 1))
        parts.append(_triplets_of(anchor, positive, negative))
    return join_triplets(parts)


def _check_count(labels: Tensor, others: Tensor, *, own: bool) -> None:
    """Refuse a list that would not fit into memory, before it is begun."""
    _, classes = torch.unique(torch.cat([labels, others]), return_inverse=True)
    size = torch.bincount(classes[len(labels) :], minlength=int(classes.max()) + 1)[classes[: len(labels)]]
    _refuse_many(int(((size - int(own)) * (len(others) - size)).sum()))


def _refuse_many(count: int) -> None:
    if count > MOST_TRIPLETS:
        raise ValueError(
            f"this batch has {count:,} triplets, {24 * count / 2**30:,.0f} GiB as a list; "
            'give miner="all" to a loss, which streams them without a list.'
        )
