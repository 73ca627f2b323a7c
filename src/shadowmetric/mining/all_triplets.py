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
from shadowmetric.ops.memory import Bytes, Cost
from shadowmetric.types import Triplets

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
        labels, names = batch.labels, batch.names()
        others = labels if batch.reference_labels is None else batch.reference_labels
        _check_count(labels, others, own=names is None)
        parts = [no_triplets(labels.device)]
        for anchor, label in enumerate(labels):
            same = others == label
            negative = (~same).nonzero()[:, 0]
            if names is None:
                same[anchor] = False
            else:
                same &= names[1] != names[0][anchor]
            positive = same.nonzero()[:, 0]
            pairs = torch.cartesian_prod(positive, negative).view(-1, 2)
            parts.append(Triplets(torch.full_like(pairs[:, 0], anchor), pairs[:, 0], pairs[:, 1]))
        return Mined(join_triplets(parts))  # in order: anchors ascend, and so do the rows of a product of lists


def _check_count(labels: Tensor, others: Tensor, *, own: bool) -> None:
    """Refuse a list that would not fit into memory, before it is begun."""
    _, classes = torch.unique(torch.cat([labels, others]), return_inverse=True)
    size = torch.bincount(classes[len(labels) :], minlength=int(classes.max()) + 1)[classes[: len(labels)]]
    count = int(((size - int(own)) * (len(others) - size)).sum())
    if count > MOST_TRIPLETS:
        raise ValueError(
            f"this batch has {count:,} triplets, {24 * count / 2**30:,.0f} GiB as a list; "
            'give miner="all" to a loss, which streams them without a list.'
        )
