"""Losses of triplets that stand in a list: given ones, and those that are mined in class order or in a matrix.

    value(a, p, n) = hinge( measure(a, p), measure(a, n) )

Pairs are measured by `ops/pair_measures`, which keeps row numbers instead of rows.

Memory: kept for backward, a few numbers per triplet.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from shadowmetric.checks import check_margin, check_rows, check_triplets
from shadowmetric.losses.reductions import Reduction, check_reduction, reduce_totals, totals_of
from shadowmetric.mining.checked_batch import CheckedBatch, Mined
from shadowmetric.mining.miner import TripletMiner
from shadowmetric.ops.pair_measures import Measure, pair_measures
from shadowmetric.types import Hinge, Miner, Scalar, Triplets, TripletValues


def hinge_at(margin: float) -> Hinge:
    """Return max(closer - farther + margin, 0) as a function."""
    check_margin(margin)
    return lambda closer, farther: torch.relu(closer - farther + margin)


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


def mine(miner: Miner, batch: CheckedBatch, slots: int | None = None) -> Mined:
    """Call a miner, ours or another library's; the latter may pair an anchor with itself, which is left out."""
    if isinstance(miner, TripletMiner):
        mined = miner.mine(batch, slots)
        return mined if miner.comparison.unit_rows else Mined(mined.triplets)
    embeddings, references, anchors_at = batch.embeddings, batch.references, batch.anchors_at
    labels, reference_labels = batch.class_labels(f"the miner {type(miner).__name__}")
    if references is None:
        return Mined(Triplets(*miner(embeddings.detach(), labels)))
    triplets = Triplets(*miner(embeddings.detach(), labels, references.detach(), reference_labels))
    if not isinstance(anchors_at, int):
        return Mined(triplets)
    other = triplets.positive != triplets.anchor + anchors_at
    return Mined(Triplets(*(numbers[other] for numbers in triplets)))
