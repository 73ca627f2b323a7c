"""Contrastive loss (Hadsell et al.): positives together, negatives beyond a margin.

    positive pair: d^2 / 2          negative pair: max(margin - d, 0)^2 / 2          d: Euclidean distance

and without the squares and halves for squared=False. The loss is the mean over positive pairs plus
the mean over negative pairs, so that the many negatives do not outvote the few positives.

Memory: the scratch; rows are streamed and never kept.
"""

from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor

from shadowmetric.checks import check_margin
from shadowmetric.losses.distances import root
from shadowmetric.losses.reductions import Reduction, Totals, check_reduction, reduce_totals
from shadowmetric.losses.row_loss import Batch, Reduce, RowLoss, RowSettings
from shadowmetric.losses.sums import Sums, join_sums
from shadowmetric.mining.pairs import Masks
from shadowmetric.types import AnyLabels, Embeddings, References, Scalar


def contrastive_loss(
    embeddings: Embeddings,
    labels: AnyLabels,
    triplets: Sequence[Tensor] | None = None,
    *,
    margin: float = 1.0,
    squared: bool = True,
    reduction: Reduction = "mean",
    references: References | None = None,
    reference_labels: AnyLabels | None = None,
    **settings: Unpack[RowSettings],
) -> Scalar:
    """Return the contrastive loss of a batch, of all pairs or of given triplets."""
    loss = ContrastiveLoss(margin=margin, squared=squared, reduction=reduction, **settings)
    return loss(embeddings, labels, triplets, references=references, reference_labels=reference_labels)


class ContrastiveLoss(RowLoss):
    """Contrastive loss of a batch. margin is in distance."""

    unit = "distance"
    temporaries = 11.0

    def __init__(
        self,
        margin: float = 1.0,
        *,
        squared: bool = True,
        reduction: Reduction = "mean",
        **settings: Unpack[RowSettings],
    ):
        super().__init__(**settings)
        self.margin = check_margin(margin)
        self.squared = squared
        self.reduction: Reduction = check_reduction(reduction)

    def batch_sums(self, batch: Batch) -> Sums:
        """Return the sums of positive pairs, and those of negative ones."""
        pairs = batch.pairs

        def reducer(start: int, stop: int) -> Reduce:
            masks = pairs.masks(start, stop)
            return lambda squared: self._row_totals(masks, squared)

        totals = batch.rows(reducer, outputs=4, temporaries=self.temporaries, squared=True).sum(0)
        pull, pulled, push, pushed = totals
        return join_sums(
            *(reduce_totals(Totals(*part), self.reduction) for part in ((pull, pulled, pulled), (push, pushed, pushed)))
        )

    def _row_totals(self, masks: Masks, squared: Tensor) -> Tensor:
        """Return of each row's positive and of its negative pairs the sum of values, and how many count."""
        apart = root(squared)
        near = torch.relu(self.margin - apart)
        pull, push = (squared, near.square()) if self.squared else (apart, near)
        pull, push = pull * masks.positive, push * masks.negative
        pulled, pushed = (pull > 0, push > 0) if self.reduction == "mean_nonzero" else masks
        half = 0.5 if self.squared else 1.0
        return torch.stack([half * pull.sum(1), pulled.sum(1), half * push.sum(1), pushed.sum(1)], 1)
