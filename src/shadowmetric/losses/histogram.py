"""Histogram loss (Ustinova & Lempitsky 2016, eq. 4): how likely a negative pair is more similar than a positive one.

    h+_b, h-_b   the shares of positive, and of negative pairs whose cosine is in bin b of [-1, 1]
    loss         = sum over bins b of h-_b (h+_0 + ... + h+_b)

A pair counts in the two bins whose centers are nearest, by how near they are (eq. 2). Similarities beyond 1, of rows
as they are, count as 1. The shares are those of all pairs of the batch, so the loss is no sum over rows: with ranks
each of them streams everybody's rows; a memory is one batch with the batch.

Memory: the scratch, and 2 (bins + 1) numbers for each row. Time: two products, however many positives there are.
"""

from collections.abc import Sequence
from typing import Unpack

from torch import Tensor

from shadowmetric.losses.fast_ap import HistogramOfRows, soft_histograms
from shadowmetric.losses.row_loss import Batch, Reduce, RowSettings
from shadowmetric.losses.sums import Sums, sums_of
from shadowmetric.types import AnyLabels, Embeddings, References, Scalar


def histogram_loss(
    embeddings: Embeddings,
    labels: AnyLabels,
    triplets: Sequence[Tensor] | None = None,
    *,
    bins: int = 100,
    references: References | None = None,
    reference_labels: AnyLabels | None = None,
    **settings: Unpack[RowSettings],
) -> Scalar:
    """Return the histogram loss of a batch, of all pairs or of given triplets."""
    loss = HistogramLoss(bins=bins, **settings)
    return loss(embeddings, labels, triplets, references=references, reference_labels=reference_labels)


class HistogramLoss(HistogramOfRows):
    """Histogram loss of a batch. bins: of similarity, from -1 to 1."""

    def __init__(self, *, bins: int = 100, **settings: Unpack[RowSettings]):
        super().__init__(bins, **settings)

    def batch_sums(self, batch: Batch) -> Sums:
        """Return the loss, weighted by rows so that ranks' shares add up to the whole."""
        rows = len(batch.checked.labels)
        if isinstance(batch.checked.anchors_at, int):
            batch = batch.of_references()
        pairs = batch.pairs

        def reducer(start: int, stop: int) -> Reduce:
            masks = pairs.masks(start, stop)
            return lambda similarity: soft_histograms(masks, (similarity + 1) * (self.bins / 2), self.bins)

        found = batch.rows(reducer, temporaries=self.temporaries, outputs=2 * (self.bins + 1)).sum(0)
        positive, negative = (part / part.detach().sum().clamp_min(1) for part in found.chunk(2))
        return sums_of((rows * (negative * positive.cumsum(0)).sum(), rows))
