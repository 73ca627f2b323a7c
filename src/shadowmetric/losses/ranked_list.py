"""Ranked-list loss (Wang et al. 2019): positives inside a ball, negatives outside a larger one.

    positives farther than alpha - margin:  mean of d - (alpha - margin)
    negatives nearer than alpha:            weighted mean of alpha - d, weights exp(temperature (alpha - d))
    loss = mean over rows of (1 - balance) positives + balance negatives          d: Euclidean distance

The weights say how much a negative counts and carry no gradient: the authors' own backward multiplies the slope of
each pair by its weight. pytorch-metric-learning differentiates its weights too, which gives other gradients.

Memory: the scratch; rows are streamed and never kept, but for 64 KiB of a small batch.
"""

from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor

from shadowmetric.checks import check_margin, check_number
from shadowmetric.losses.distances import root
from shadowmetric.losses.row_loss import Batch, Reduce, RowLoss, RowSettings
from shadowmetric.losses.sums import Sums, mean_of
from shadowmetric.mining.pairs import Masks
from shadowmetric.types import AnyLabels, Embeddings, References, Scalar


def ranked_list_loss(
    embeddings: Embeddings,
    labels: AnyLabels,
    triplets: Sequence[Tensor] | None = None,
    *,
    alpha: float = 1.2,
    margin: float = 0.4,
    temperature: float = 10.0,
    balance: float = 0.5,
    references: References | None = None,
    reference_labels: AnyLabels | None = None,
    **settings: Unpack[RowSettings],
) -> Scalar:
    """Return the ranked-list loss of a batch, of all pairs or of given triplets."""
    loss = RankedListLoss(alpha=alpha, margin=margin, temperature=temperature, balance=balance, **settings)
    return loss(embeddings, labels, triplets, references=references, reference_labels=reference_labels)


class RankedListLoss(RowLoss):
    """Ranked-list loss of a batch. alpha and margin are in distance.

    balance: the share of the negatives, 0 to 1. temperature: 0 lets all negatives within alpha count alike.
    """

    unit = "distance"
    temporaries = 12.0
    slopes_kept = True

    def __init__(
        self,
        *,
        alpha: float = 1.2,
        margin: float = 0.4,
        temperature: float = 10.0,
        balance: float = 0.5,
        **settings: Unpack[RowSettings],
    ):
        super().__init__(**settings)
        self.alpha, self.margin = check_margin(alpha, name="alpha"), check_margin(margin)
        if self.margin > self.alpha:
            raise ValueError(
                f"margin is {margin!r} and alpha {alpha!r}; the ball of the positives ends at alpha - margin: "
                "give a margin of at most alpha."
            )
        self.temperature = check_number(temperature, "temperature", least=0.0)
        self.balance = check_number(balance, "balance", least=0.0, most=1.0)

    def batch_sums(self, batch: Batch) -> Sums:
        """Return the sums of a mean over rows."""
        pairs = batch.pairs

        def reducer(start: int, stop: int) -> Reduce:
            masks = pairs.masks(start, stop)
            return lambda squared: self._row_values(masks, squared)

        return mean_of(batch.rows(reducer, temporaries=self.temporaries, squared=True))

    def _row_values(self, masks: Masks, squared: Tensor) -> Tensor:
        """Return the loss of each row: (rows, 1)."""
        apart, inner = root(squared), self.alpha - self.margin
        far = masks.positive & (apart > inner)
        near = masks.negative & (apart < self.alpha)
        pull = torch.where(far, apart - inner, 0.0).sum(1, keepdim=True) / far.sum(1, keepdim=True).clamp_min(1)
        beyond = self.alpha - apart
        urgency = torch.where(near, self.temperature * beyond.detach(), float("-inf"))
        weight = torch.where(near, torch.softmax(urgency, 1), 0.0)
        push = (weight * beyond).sum(1, keepdim=True)
        return (1 - self.balance) * pull + self.balance * push
