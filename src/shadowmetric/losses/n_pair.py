"""N-pair loss (Sohn): each positive pair against all negatives of its anchor, as a soft-max.

    loss = mean over positive pairs of log(1 + sum over n of exp((a.n - a.p) / temperature))

The sum over negatives belongs to the anchor: one number per row is streamed, and a pair is the
softplus of a difference. Sohn's batches hold one pair per class; here every pair of a batch counts.
Sohn leaves rows unnormalised and adds l2_weight times their mean squared length: normalize=False.

Memory: the scratch, and a few numbers per row and positive pair.
"""

from typing import Any

import torch
from torch import Tensor

from shadowmetric.checks import check_margin, check_number
from shadowmetric.losses.distances import similarity
from shadowmetric.losses.row_loss import Batch, RowLoss, masked_log_sum_exp
from shadowmetric.losses.sums import Sums, joined, mean_of
from shadowmetric.mining.pairs import Masks
from shadowmetric.ops.row_lengths import squared_lengths


class NPairLoss(RowLoss):
    """N-pair loss of a batch."""

    temporaries = 8.0
    pair_kept, pair_peak = (16, 5), (24, 9)

    def __init__(self, *, temperature: float = 1.0, l2_weight: float = 0.0, **settings: Any):
        super().__init__(**settings)
        self.temperature = check_margin(temperature, name="temperature")
        self.l2_weight = check_number(l2_weight, "l2_weight")

    def batch_sums(self, batch: Batch) -> Sums:
        """Return the sums of a mean over positive pairs, and of the mean squared length if it has a weight."""

        def reduce(masks: Masks, block: Tensor) -> Tensor:
            return masked_log_sum_exp(block / self.temperature, masks.negative)[:, None]

        crowd = batch.rows(reduce, temporaries=self.temporaries)[:, 0]
        anchor, _, to_positive = batch.positives(similarity)
        pairs = mean_of(torch.nn.functional.softplus(crowd[anchor] - to_positive / self.temperature))
        if not self.l2_weight:
            return pairs
        return joined(pairs, mean_of(self.l2_weight * squared_lengths(batch.given.embeddings).to(batch.dtype)))
