"""N-pair loss (Sohn): each positive pair against all negatives of its anchor, as a soft-max.

    loss = mean over positive pairs of log(1 + sum over n of exp((a.n - a.p) / temperature))

The sum over negatives belongs to the anchor, so all pairs of an anchor are known from its row. Sohn's batches hold one
pair per class; here every pair of a batch counts. Sohn leaves rows unnormalized and adds l2_weight times their mean
squared length: normalize=False.

Memory: the scratch, and a few numbers per row; rows are streamed and never kept.
"""

from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor

from shadowmetric.checks import check_margin, check_number
from shadowmetric.losses.row_loss import Batch, Reduce, RowLoss, RowSettings, log_sum_exp_without
from shadowmetric.losses.sums import Sums, join_sums, mean_of, sums_of
from shadowmetric.ops.row_lengths import squared_lengths
from shadowmetric.types import AnyLabels, Embeddings, References, Scalar


def n_pair_loss(
    embeddings: Embeddings,
    labels: AnyLabels,
    triplets: Sequence[Tensor] | None = None,
    *,
    temperature: float = 1.0,
    l2_weight: float = 0.0,
    references: References | None = None,
    reference_labels: AnyLabels | None = None,
    **settings: Unpack[RowSettings],
) -> Scalar:
    """Return the N-pair loss of a batch, of all pairs or of given triplets."""
    loss = NPairLoss(temperature=temperature, l2_weight=l2_weight, **settings)
    return loss(embeddings, labels, triplets, references=references, reference_labels=reference_labels)


class NPairLoss(RowLoss):
    """N-pair loss of a batch.

    slots: the most positives that a row has, per_class - 1 of a batch with per_class rows of each class; None asks the
    labels, for which an accelerator waits once.
    """

    temporaries = 8.0
    places_kept = True

    def __init__(self, *, temperature: float = 1.0, l2_weight: float = 0.0, **settings: Unpack[RowSettings]):
        super().__init__(**settings)
        self.temperature = check_margin(temperature, name="temperature")
        self.l2_weight = check_number(l2_weight, "l2_weight", least=0.0)

    def batch_sums(self, batch: Batch) -> Sums:
        """Return the sums of a mean over positive pairs, and of the mean squared length if it has a weight."""
        pairs, positives = batch.pairs, batch.pairs.positives()
        slots = positives.slots(self.slots, debug=self.debug)

        def reducer(start: int, stop: int) -> Reduce:
            excluded, (positive, real) = pairs.not_negative(start, stop), positives.of(start, stop, slots)
            return lambda similarity: self._row_totals(similarity, excluded, positive, real)

        total, count = batch.rows(reducer, temporaries=self.temporaries, outputs=2).sum(0)
        values = sums_of((total, count))
        if not self.l2_weight:
            return values
        return join_sums(values, mean_of(self.l2_weight * squared_lengths(batch.checked.embeddings).to(batch.dtype)))

    def _row_totals(self, similarity: Tensor, excluded: Tensor, positive: Tensor, real: Tensor) -> Tensor:
        """Return of each row the sum over its positive pairs, and their number."""
        scaled = similarity / self.temperature
        crowd = log_sum_exp_without(scaled, excluded)
        pairs = torch.nn.functional.softplus(crowd - scaled.gather(1, positive))
        return torch.stack([torch.where(real, pairs, 0.0).sum(1), real.sum(1)], 1)
