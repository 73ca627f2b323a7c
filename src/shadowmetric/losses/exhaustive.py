"""Every triplet of a batch, or every one in the semi-hard windows, without a list of them.

    total = sum over rows a, positives p of a, negatives n of a:  hinge( measure(a, p), measure(a, n) )

streamed by `row_stream`: a block of whole rows against all others, and one positive of each row after the other.

Memory: the scratch, and a few numbers per row. Time: a product, and a pass over it for each positive of a row.
"""

from collections.abc import Sequence
from typing import TypeGuard

import torch
from torch import Tensor

from shadowmetric.losses.distances import squared_distance
from shadowmetric.losses.reductions import Totals
from shadowmetric.losses.triplet_margins import TripletMargins, widened
from shadowmetric.mining import AllMiner, SemiHardMiner
from shadowmetric.mining.checked_batch import CheckedBatch
from shadowmetric.mining.pairs import pairs_of
from shadowmetric.mining.slots import SLOTS_AT_ONCE
from shadowmetric.ops.free_gaps import gap_block
from shadowmetric.ops.grid_rows import ExactSide
from shadowmetric.ops.pair_measures import Measure
from shadowmetric.ops.row_graph import Term
from shadowmetric.ops.row_stream import Stream, row_stream
from shadowmetric.ops.rows import working_dtype
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.types import Hinge, Miner

STREAMED = 14.0  # blocks that a streamed triplet term makes


def is_exhaustive(miner: Miner) -> TypeGuard[AllMiner | SemiHardMiner]:
    """Return whether a miner takes every triplet there is, so that a loss should stream them."""
    return isinstance(miner, AllMiner) or (isinstance(miner, SemiHardMiner) and miner.negatives == "all")


def all_triplet_totals(
    batch: CheckedBatch,
    miner: AllMiner | SemiHardMiner,
    measure: Measure,
    hinge: Hinge,
    *,
    normalize: bool = True,
    slots: int | None = None,
    margins: TripletMargins | None = None,
    debug: bool = False,
    scratch_bytes: int = SCRATCH_BYTES,
) -> Totals:
    """Return the totals over every triplet the miner would list. slots: the most positives of a row, if known.

    margins: where they differ from the loss's own.
    """
    pairs = pairs_of(batch)
    positives = pairs.positives()
    slots = positives.slots(slots, debug=debug)
    at_once = 1 if batch.labels.device.type == "cpu" else min(slots, SLOTS_AT_ONCE)  # fewer, larger calls
    rows, others = batch.embeddings, batch.references  # not given: a graph must not keep the rows on the grid

    def terms(start: int, stop: int) -> Sequence:
        negative = ~pairs.not_negative(start, stop)
        more = None if margins is None else margins.of_block(slice(start, stop))
        mined_at = None  # what the miner compares, and |a|^2, where the loss compares other rows
        if isinstance(miner, SemiHardMiner) and miner.comparison.unit_rows != normalize:
            left, right = CheckedBatch(rows, pairs.labels, others).grids(normalize=miner.comparison.unit_rows)
            make_block = gap_block if miner.comparison.of_gaps else ExactSide.squared_distances
            compared = make_block(ExactSide(left), slice(start, stop), ExactSide(right))
            mined_at = compared, left.square[start:stop, None]

        def partner_term(slot: int) -> Term:
            partner, real = positives.of(start, stop, min(slot + at_once, slots), after=slot)

            def term(dots: Tensor, square: Tensor, other_square: Tensor) -> Tensor:
                mask = real[:, :, None] & negative[:, None]  # (rows, slots, references)
                if isinstance(miner, SemiHardMiner):
                    compared = _compare(miner, dots, square, other_square) if mined_at is None else mined_at
                    mask = mask & _inside(miner, *compared, partner)
                closer = measure(dots.gather(1, partner), square, other_square[partner])
                farther = measure(dots, square, other_square)
                closer = closer[:, :, None] if more is None else widened(closer[:, :, None], more(partner))
                value = torch.where(mask, hinge(closer, farther[:, None]), 0.0)
                return torch.stack([part.sum((1, 2)) for part in (value, mask, value > 0)], 1)

            return term

        return [partner_term(slot) for slot in range(0, slots, at_once)]

    temporaries = STREAMED * at_once + pairs.temporaries
    stream = Stream(normalize, exact=True, outputs=3, temporaries=temporaries, scratch_bytes=scratch_bytes)
    totals = row_stream(rows, others, terms, stream).sum(0)
    return Totals(*totals.to(working_dtype(rows.dtype, batch.others.dtype)))


@torch.no_grad()
def _compare(miner: SemiHardMiner, dots: Tensor, square: Tensor, other_square: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the miner compares, and |a|^2, of rows as the loss compares them."""
    if miner.comparison.of_gaps:
        return (dots - square).abs(), square
    return squared_distance(dots, square, other_square), square


@torch.no_grad()
def _inside(miner: SemiHardMiner, compared: Tensor, square: Tensor, partner: Tensor) -> Tensor:
    """Return which columns lie in the windows of the partners: (rows, slots, references)."""
    floor = compared.gather(1, partner)
    upper = miner.comparison.upper_end(floor, miner.margin, square)
    return (compared[:, None] > floor[:, :, None]) & (compared[:, None] < upper[:, :, None])
