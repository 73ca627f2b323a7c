"""Losses of triplets that are mined in slots: shapes that do not depend on labels, and no read on the host.

    total = sum over rows and slots of hinge( measure(a, p), measure(a, n) ), where there is a triplet

Memory: kept for backward, a few numbers for each place (`ops/slot_pairs`).
"""

import torch
from torch import Tensor

from shadowmetric.losses.reductions import Reduction
from shadowmetric.losses.sums import Sums, sums_of
from shadowmetric.mining.checked_batch import CheckedBatch
from shadowmetric.mining.slots import SlotTriplets
from shadowmetric.ops.grid_rows import pair_dots_of, pair_squared
from shadowmetric.ops.pair_measures import Measure
from shadowmetric.ops.rows import working_dtype
from shadowmetric.ops.runs import NEVER
from shadowmetric.ops.slot_pairs import SlotPairs, slot_totals
from shadowmetric.types import Hinge


def slot_sums(
    batch: CheckedBatch,
    mined: SlotTriplets,
    measure: Measure,
    hinge: Hinge,
    *,
    normalize: bool,
    known: bool,
    reduction: Reduction,
    fused: bool,
) -> Sums:
    """Return the sums over the triplets of all places.

    known: the distances of `mined` are squared, and of the rows that the loss compares.
    """
    real, mean_nonzero = mined.real, reduction == "mean_nonzero"
    dtype = working_dtype(batch.embeddings.dtype, batch.others.dtype)

    def reduce(dots: Tensor, square: Tensor, other_square: Tensor) -> tuple[Tensor, Tensor]:
        closer, farther = measure(dots, square, other_square).to(dtype).chunk(2, 1)
        values = hinge(closer, farther) * real
        return values.sum(), (values > 0 if mean_nonzero else real).sum()

    pairs = slot_pairs_of(batch, mined, normalize=normalize, known=known)
    total, count = slot_totals(batch.embeddings, batch.references, pairs._replace(fused=fused), reduce)
    return sums_of((total, 0 if reduction == "sum" else count))


def slot_pairs_of(batch: CheckedBatch, mined: SlotTriplets, *, normalize: bool, known: bool) -> SlotPairs:
    """Return the pairs of the triplets in all places, positives before negatives; zeros where there is no triplet."""
    other = torch.cat([mined.positive, mined.negative], 1)
    left, right = batch.grids(normalize=normalize)
    if normalize:
        if known:
            both = torch.cat([mined.closer, mined.farther], 1)
            both.masked_fill_(both == NEVER, 0.0)
        else:
            row = torch.arange(len(other), device=other.device)[:, None].expand_as(other)
            both = pair_squared(left, right, row.reshape(-1), other.reshape(-1)).view_as(other)
        one = torch.ones((), dtype=both.dtype, device=both.device)
        return SlotPairs(other, both.div_(-2).add_(1), (one, one), (left.length, right.length))
    row = torch.arange(len(other), device=other.device)[:, None].expand_as(other)
    dots = pair_dots_of(left, right, row.reshape(-1), other.reshape(-1)).view_as(other)
    return SlotPairs(other, dots, (left.square[:, None], right.square[other]), None)
