"""FastAP loss (Cakir et al. 2019, eq. 7): average precision from a histogram of each row's squared distances.

    h_b, H_b    the positives in bin b of row i, and all rows in bins 0 to b; h and H of positives alone: h+, H+
    FastAP_i    = 1/|P_i| sum over bins b of h+_b H+_b / H_b
    loss        = mean over rows with a positive of 1 - FastAP_i

Squared distances of unit rows lie between 0 and 4, which `bins` cuts evenly. A pair counts in the two bins whose
centers are nearest, by how near they are, so that a bin's content has a slope; at a center, that of the upper side.
Distances above 4, of rows as they are, count as 4.

Memory: the scratch, and 2 (bins + 1) numbers for each row. Time: two products, however many positives there are.
"""

from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor

from shadowmetric.losses.row_loss import Batch, Reduce, RowLoss, RowSettings
from shadowmetric.losses.sums import Sums, sums_of
from shadowmetric.mining.pairs import Masks
from shadowmetric.ops.memory import Bytes, Cost
from shadowmetric.types import AnyLabels, Embeddings, References, Scalar

FARTHEST = 4.0  # squared distance of unit rows


def fast_ap_loss(
    embeddings: Embeddings,
    labels: AnyLabels,
    triplets: Sequence[Tensor] | None = None,
    *,
    bins: int = 10,
    references: References | None = None,
    reference_labels: AnyLabels | None = None,
    **settings: Unpack[RowSettings],
) -> Scalar:
    """Return the FastAP loss of a batch, of all pairs or of given triplets."""
    loss = FastAPLoss(bins=bins, **settings)
    return loss(embeddings, labels, triplets, references=references, reference_labels=reference_labels)


class HistogramOfRows(RowLoss):
    """A loss of a histogram of each row, with so many bins."""

    temporaries = 14.0

    def __init__(self, bins: int, **settings: Unpack[RowSettings]):
        super().__init__(**settings)
        if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
            raise ValueError(f"bins is {bins!r}; it must be a whole number of at least 1.")
        self.bins = bins

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return the bytes of streaming the rows, and of their histograms."""
        cost, histogram = super().memory(dtype, references=references), 8.0 * 2 * (self.bins + 1)
        kept, working = Bytes(row=5 * histogram), Bytes(row=10 * histogram)
        return Cost(cost.kept + kept, tuple(phase + working for phase in cost.phases))


class FastAPLoss(HistogramOfRows):
    """FastAP loss of a batch. bins: of squared distance, from 0 to 4."""

    def __init__(self, *, bins: int = 10, **settings: Unpack[RowSettings]):
        super().__init__(bins, **settings)

    def batch_sums(self, batch: Batch) -> Sums:
        """Return the sums of a mean over rows with a positive."""
        pairs = batch.pairs

        def reducer(start: int, stop: int) -> Reduce:
            masks = pairs.masks(start, stop)
            return lambda squared: soft_histograms(masks, squared / (FARTHEST / self.bins), self.bins)

        found = batch.rows(reducer, temporaries=self.temporaries, squared=True, outputs=2 * (self.bins + 1))
        positive, negative = found.chunk(2, 1)
        positives = positive.detach().sum(1).round()  # a pair's two shares are one
        before, everyone = positive.cumsum(1), (positive + negative).cumsum(1)
        some = everyone > 0
        precision = torch.where(some, positive * before / torch.where(some, everyone, 1.0), 0.0).sum(1)
        has = positives > 0
        return sums_of((torch.where(has, 1 - precision / torch.where(has, positives, 1.0), 0.0).sum(), has.sum()))


def soft_histograms(masks: Masks, values: Tensor, bins: int) -> Tensor:
    """Return of each row how many positives, then how many negatives, lie at 0, 1, ... bins: (rows, 2 (bins + 1)).

    A value between two of these counts for both, by how near they are; one beyond the ends counts at the end.
    """
    values = values.clamp(0, bins)
    lower = values.detach().floor().clamp_max(bins - 1)
    upper_share = values - lower
    place = lower.long() + (bins + 1) * masks.negative
    counted = (masks.positive | masks.negative).to(values.dtype)
    empty = values.new_zeros(len(values), 2 * (bins + 1))
    return empty.scatter_add(1, place, (1 - upper_share) * counted).scatter_add(1, place + 1, upper_share * counted)
