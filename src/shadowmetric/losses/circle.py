"""Circle loss (Sun et al. 2020, eqs. 6 and 7): pull and push each similarity by how far it is from its optimum.

    loss_i = log(1 + sum over n of exp(scale w_n (s_in - margin)) * sum over p of exp(-scale w_p (s_ip - 1 + margin)))
    w_p = max(1 + margin - s_ip, 0)          w_n = max(s_in + margin, 0)

The weights carry no gradient (the paper's "self-paced" ones). The loss is the mean over rows that have a positive and
a negative. The margin of 0.4 and scale of 80 are the paper's for fine-grained retrieval; 0.25 and 256 for faces.

Memory: the scratch; rows are streamed and never kept.
"""

from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor
from torch.nn.functional import softplus

from shadowmetric.checks import check_margin
from shadowmetric.losses.row_loss import Batch, Reduce, RowLoss, RowSettings, log_sum_exp_without
from shadowmetric.losses.sums import Sums, sums_of
from shadowmetric.mining.pairs import Masks
from shadowmetric.types import AnyLabels, Embeddings, References, Scalar

LEAST = -1e30  # of a row without positives, or negatives


def circle_loss(
    embeddings: Embeddings,
    labels: AnyLabels,
    triplets: Sequence[Tensor] | None = None,
    *,
    margin: float = 0.4,
    scale: float = 80.0,
    references: References | None = None,
    reference_labels: AnyLabels | None = None,
    **settings: Unpack[RowSettings],
) -> Scalar:
    """Return the Circle loss of a batch, of all pairs or of given triplets."""
    loss = CircleLoss(margin=margin, scale=scale, **settings)
    return loss(embeddings, labels, triplets, references=references, reference_labels=reference_labels)


class CircleLoss(RowLoss):
    """Circle loss of a batch. margin is in cosine: how far from 1 and 0 similarities may stay."""

    unit = "cosine"
    temporaries = 14.0

    def __init__(self, *, margin: float = 0.4, scale: float = 80.0, **settings: Unpack[RowSettings]):
        super().__init__(**settings)
        self.margin, self.scale = check_margin(margin), check_margin(scale, name="scale")

    def batch_sums(self, batch: Batch) -> Sums:
        """Return the sums of a mean over rows with a positive and a negative."""
        pairs = batch.pairs

        def reducer(start: int, stop: int) -> Reduce:
            masks = pairs.masks(start, stop)
            return lambda similarity: self._row_totals(masks, similarity)

        total, count = batch.rows(reducer, temporaries=self.temporaries, outputs=2).sum(0)
        return sums_of((total, count))

    def _row_totals(self, masks: Masks, similarity: Tensor) -> Tensor:
        """Return the loss of each row, 0 if it counts not, and whether it counts."""
        weight = torch.where(masks.positive, similarity - 1 - self.margin, similarity + self.margin).detach()
        weight = torch.where(masks.positive, weight.clamp_max(0), weight.clamp_min(0)) * self.scale
        values = weight * torch.where(masks.positive, similarity - 1 + self.margin, similarity - self.margin)
        pull, push = (log_sum_exp_without(values, ~mask, LEAST) for mask in masks)
        counts = masks.positive.any(1, keepdim=True) & masks.negative.any(1, keepdim=True)
        loss = softplus(torch.where(counts, pull + push, 0.0))
        return torch.cat([torch.where(counts, loss, 0.0), counts.to(loss.dtype)], 1)
