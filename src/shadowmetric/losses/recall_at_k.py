"""Recall@k surrogate loss (Patel et al. 2022, eqs. 4 and 5): how many positives come first, made differentiable.

    R_k(i) = min( sum over positives p of G((k - rank(i, p)) / rank_temperature), k ) / min(k, |P_i|)
    loss   = mean over rows with a positive of 1 - mean over the values of k of R_k(i)

rank is soft, as in `soft_ranks.py`, and G its sigmoid. The paper trains with k of 1, 2, 4, 8 and 16, ranks at
temperature 1 and similarities at 0.01, and batches of thousands of rows. Its program counts the row itself among what
is ranked, first of all; here a row is not compared with itself.

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

K = (1, 2, 4, 8, 16)


def recall_at_k_loss(
    embeddings: Embeddings,
    labels: AnyLabels,
    triplets: Sequence[Tensor] | None = None,
    *,
    k: Sequence[int] = K,
    temperature: float = 0.01,
    rank_temperature: float = 1.0,
    references: References | None = None,
    reference_labels: AnyLabels | None = None,
    **settings: Unpack[RowSettings],
) -> Scalar:
    """Return the Recall@k surrogate loss of a batch, of all pairs or of given triplets."""
    loss = RecallAtKLoss(k, temperature=temperature, rank_temperature=rank_temperature, **settings)
    return loss(embeddings, labels, triplets, references=references, reference_labels=reference_labels)


class RecallAtKLoss(RankLoss):
    """Recall@k surrogate loss of a batch. k: the places that count, one or several.

    temperature: of similarities. rank_temperature: of ranks.
    slots: the most positives that a row has, per_class - 1 of a batch with per_class rows of each class; None asks the
    labels, for which an accelerator waits once.
    """

    def __init__(
        self,
        k: Sequence[int] = K,
        *,
        temperature: float = 0.01,
        rank_temperature: float = 1.0,
        **settings: Unpack[RowSettings],
    ):
        super().__init__(**settings)
        if not k or not all(isinstance(place, int) and place > 0 for place in k):
            raise ValueError(f"k is {k!r}; give whole numbers of at least 1, such as (1, 2, 4).")
        self.k = tuple(k)
        self.temperature = check_margin(temperature, name="temperature")
        self.rank_temperature = check_margin(rank_temperature, name="rank_temperature")

    def batch_sums(self, batch: Batch) -> Sums:
        """Return the sums of a mean over rows with a positive."""
        warmth = self.rank_temperature

        def of_ranks(rank: Tensor, above: Tensor, count: Tensor) -> Tensor:
            return torch.stack([torch.sigmoid((place - rank) / warmth) for place in self.k], 2)

        found, positives = self.rank_totals(batch, of_ranks, len(self.k))
        shares = [
            first.clamp_max(place) / positives[:, 0].clamp(1, place)
            for first, place in zip(found.unbind(1), self.k, strict=True)
        ]
        recall = torch.stack(shares, 1)
        has = positives > 0
        return sums_of((torch.where(has, 1 - recall.mean(1, keepdim=True), 0.0).sum(), has.sum()))
