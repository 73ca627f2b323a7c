"""Smooth-AP loss (Brown et al. 2020, eqs. 5 and 6): the average precision of each row's ranking, made differentiable.

    AP_i = 1/|P_i| sum over positives p of above(i, p) / rank(i, p)          soft ranks, as in `soft_ranks.py`
    loss = mean over rows with a positive of 1 - AP_i

A row is not among what it ranks. The authors' code, and those after it, keep it there as a positive of itself; call
with the batch as references and anchors_at="elsewhere" for their number.

Memory: the scratch, and a few numbers per row. Time: two passes over the similarities for each positive of a row.
"""

from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor

from shadowmetric.checks import check_margin
from shadowmetric.losses.row_loss import Batch, RowSettings
from shadowmetric.losses.soft_ranks import RankLoss
from shadowmetric.losses.sums import Sums, sums_of
from shadowmetric.types import AnyLabels, Embeddings, References, Scalar


def smooth_ap_loss(
    embeddings: Embeddings,
    labels: AnyLabels,
    triplets: Sequence[Tensor] | None = None,
    *,
    temperature: float = 0.01,
    references: References | None = None,
    reference_labels: AnyLabels | None = None,
    **settings: Unpack[RowSettings],
) -> Scalar:
    """Return the Smooth-AP loss of a batch, of all pairs or of given triplets."""
    loss = SmoothAPLoss(temperature=temperature, **settings)
    return loss(embeddings, labels, triplets, references=references, reference_labels=reference_labels)


class SmoothAPLoss(RankLoss):
    """Smooth-AP loss of a batch.

    slots: the most positives that a row has, per_class - 1 of a batch with per_class rows of each class; None asks the
    labels, for which an accelerator waits once.
    """

    def __init__(self, *, temperature: float = 0.01, **settings: Unpack[RowSettings]):
        super().__init__(**settings)
        self.temperature = check_margin(temperature, name="temperature")

    def batch_sums(self, batch: Batch) -> Sums:
        """Return the sums of a mean over rows with a positive."""
        precision, positives = self.rank_totals(batch, lambda rank, above, count: (above / rank)[..., None], 1)
        has = positives > 0
        return sums_of((torch.where(has, 1 - precision / positives.clamp_min(1), 0.0).sum(), has.sum()))
