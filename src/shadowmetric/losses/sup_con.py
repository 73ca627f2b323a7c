"""Supervised contrastive loss (Khosla et al. 2020, eq. 2): every positive of a row against all other rows.

    loss_i = -1/|P(i)| sum over p in P(i) of log( exp(s_ip / temperature) / sum over a != i of exp(s_ia / temperature) )

P(i) are the positives of row i; the denominator has its positives and its negatives. The loss is the mean over rows
that have a positive. Where each has just one, as with two views of an image, this is `InfoNCELoss`.

Memory: the scratch; rows are streamed and never kept.
"""

from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor

from shadowmetric.checks import check_margin
from shadowmetric.losses.row_loss import Batch, Reduce, RowLoss, RowSettings, log_sum_exp_without
from shadowmetric.losses.sums import Sums, sums_of
from shadowmetric.mining.pairs import Masks
from shadowmetric.types import AnyLabels, Embeddings, References, Scalar

LEAST = -1e30  # of a row that is compared with nothing


def sup_con_loss(
    embeddings: Embeddings,
    labels: AnyLabels,
    triplets: Sequence[Tensor] | None = None,
    *,
    temperature: float = 0.1,
    references: References | None = None,
    reference_labels: AnyLabels | None = None,
    **settings: Unpack[RowSettings],
) -> Scalar:
    """Return the supervised contrastive loss of a batch, of all pairs or of given triplets."""
    loss = SupConLoss(temperature=temperature, **settings)
    return loss(embeddings, labels, triplets, references=references, reference_labels=reference_labels)


class SupConLoss(RowLoss):
    """Supervised contrastive loss of a batch; similarity is the cosine."""

    temporaries = 9.0

    def __init__(self, *, temperature: float = 0.1, **settings: Unpack[RowSettings]):
        super().__init__(**settings)
        self.temperature = check_margin(temperature, name="temperature")

    def batch_sums(self, batch: Batch) -> Sums:
        """Return the sums of a mean over rows with a positive."""
        pairs = batch.pairs

        def reducer(start: int, stop: int) -> Reduce:
            masks = pairs.masks(start, stop)
            return lambda similarity: self._row_totals(masks, similarity)

        total, count = batch.rows(reducer, temporaries=self.temporaries, outputs=2).sum(0)
        return sums_of((total, count))

    def _row_totals(self, masks: Masks, similarity: Tensor) -> Tensor:
        """Return the loss of each row, 0 without positives, and whether it has any."""
        positives = masks.positive.sum(1, keepdim=True)
        scaled = similarity / self.temperature
        everyone = log_sum_exp_without(scaled, ~(masks.positive | masks.negative), LEAST)
        pull = (scaled * masks.positive).sum(1, keepdim=True) / positives.clamp_min(1)
        has = positives > 0
        return torch.cat([torch.where(has, everyone - pull, 0.0), has.to(scaled.dtype)], 1)
