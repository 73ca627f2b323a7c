"""Global loss (Kumar, Carneiro & Reid 2016): both distance distributions of a batch narrow, and their means apart.

    mean+, var+   of d(a, p) over all positive pairs        mean-, var-   of d(a, n) over all negative pairs
    loss          = var+ + var- + weight max(mean+ - mean- + margin, 0)          d: a quarter of the squared distance

On unit rows d lies between 0 and 1. Weight and margin are the paper's lambda and t. The paper adds the loss to one of
triplets; so may you. Without positive or without negative pairs there is nothing to hold apart, and the loss is the
variance of the others.

Each row gives the count, the mean and the squares about its own mean of its distances, and rows are joined as
streaming moments are: M = sum of M_i + sum of n_i (mean_i - mean)^2. No difference of large sums, so that narrow
distributions keep their digits. The moments are those of all pairs of the batch, so the loss is no sum over rows: with
ranks each of them streams everybody's rows; a memory is one batch with the batch.

Memory: the scratch, and six numbers for each row. Time: two products, however many positives there are.
"""

from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor

from shadowmetric.checks import check_margin
from shadowmetric.losses.row_loss import Batch, Reduce, RowLoss, RowSettings
from shadowmetric.losses.sums import Sums, sums_of
from shadowmetric.ops.memory import Bytes, Cost
from shadowmetric.types import AnyLabels, Embeddings, References, Scalar

FARTHEST = 4.0  # squared distance of unit rows
MOMENTS = 3  # of a row: count, mean, squares about the mean


def global_loss(
    embeddings: Embeddings,
    labels: AnyLabels,
    triplets: Sequence[Tensor] | None = None,
    *,
    margin: float = 0.4,
    weight: float = 0.8,
    references: References | None = None,
    reference_labels: AnyLabels | None = None,
    **settings: Unpack[RowSettings],
) -> Scalar:
    """Return the global loss of a batch, of all pairs or of given triplets."""
    loss = GlobalLoss(margin=margin, weight=weight, **settings)
    return loss(embeddings, labels, triplets, references=references, reference_labels=reference_labels)


class GlobalLoss(RowLoss):
    """Global loss of a batch. margin: between the means, in squared distance / 4. weight: of the means' part."""

    unit = "squared distance / 4"
    temporaries = 12.0

    def __init__(self, margin: float = 0.4, *, weight: float = 0.8, **settings: Unpack[RowSettings]):
        super().__init__(**settings)
        self.margin, self.weight = check_margin(margin), check_margin(weight, name="weight")

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return the bytes of streaming the rows, and of their moments."""
        cost, moments = super().memory(dtype, references=references), 8.0 * 2 * MOMENTS
        kept, working = Bytes(row=8 * moments), Bytes(row=16 * moments)
        return Cost(cost.kept + kept, tuple(phase + working for phase in cost.phases))

    def batch_sums(self, batch: Batch) -> Sums:
        """Return the loss, weighted by rows so that ranks' shares add up to the whole."""
        rows = len(batch.checked.labels)
        if isinstance(batch.checked.anchors_at, int):
            batch = batch.of_references()
        pairs = batch.pairs

        def reducer(start: int, stop: int) -> Reduce:
            masks = pairs.masks(start, stop)
            return lambda squared: torch.cat([moments(squared / FARTHEST, mask) for mask in masks], 1)

        found = batch.rows(reducer, temporaries=self.temporaries, squared=True, outputs=2 * MOMENTS)
        (near, spread, pulled), (far, other_spread, pushed) = (join(part) for part in found.split(MOMENTS, 1))
        apart = torch.relu(near - far + self.margin) * ((pulled > 0) & (pushed > 0))
        return sums_of((rows * (spread + other_spread + self.weight * apart), rows))


def moments(values: Tensor, chosen: Tensor) -> Tensor:
    """Return of each row how many values are chosen, their mean, and the sum of squares about it: (rows, 3)."""
    count = chosen.sum(1, keepdim=True)
    mean = (values * chosen).sum(1, keepdim=True) / count.clamp_min(1)
    squares = ((values - mean) * chosen).square().sum(1, keepdim=True)
    return torch.cat([count.to(values.dtype), mean, squares], 1)


def join(moments_of_rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean and the variance of all values from the moments of rows, and how many there are."""
    count, mean, squares = moments_of_rows.unbind(1)
    count = count.detach()
    total = count.sum()
    everyone = (count * mean).sum() / total.clamp_min(1)
    variance = (squares + count * (mean - everyone).square()).sum() / total.clamp_min(1)
    return everyone, variance, total
