"""Lifted-structure loss (Oh Song et al.): each positive pair against all negatives of both its rows.

    L_i = log sum over negatives n of i of exp(margin - d_in)          d: Euclidean distance
    J_ij = log(exp L_i + exp L_j) + d_ij
    loss = mean over positive pairs of max(J_ij, 0)^2 / 2

The sum over negatives belongs to a row, not to a pair, so one number per row is streamed, and pairs
combine two of them.

Memory: the scratch, and a few numbers per row and positive pair.
"""

from typing import Any

import torch
from torch import Tensor

from shadowmetric.checks import check_margin
from shadowmetric.losses.distances import distance, root
from shadowmetric.losses.row_loss import Batch, RowLoss, masked_log_sum_exp
from shadowmetric.losses.sums import Sums, sums_of
from shadowmetric.mining.pairs import Masks


class LiftedStructureLoss(RowLoss):
    """Lifted-structure loss of a batch. margin is in distance.

    With references the negatives of a positive are references too.
    """

    unit = "distance"
    temporaries = 12.0
    pair_kept, pair_peak = (33, 9), (40, 13)

    def __init__(self, margin: float = 1.0, **settings: Any):
        super().__init__(**settings)
        self.margin = check_margin(margin)

    def batch_sums(self, batch: Batch) -> Sums:
        """Return the sums of a mean over positive pairs."""
        crowd = self._crowd(batch)
        other_crowd = crowd if batch.given.references is None else self._crowd(batch.of_references())
        anchor, positive, apart = batch.positives(distance)
        some = torch.isfinite(crowd.detach())[anchor] | torch.isfinite(other_crowd.detach())[positive]
        both = torch.logaddexp(crowd[anchor[some]], other_crowd[positive[some]])
        lifted = both + apart[some]
        return sums_of((torch.relu(lifted).square().sum() / 2, len(anchor)))

    def _crowd(self, batch: Batch) -> Tensor:
        """Return L of each row."""

        def reduce(masks: Masks, squared: Tensor) -> Tensor:
            return masked_log_sum_exp(self.margin - root(squared), masks.negative)[:, None]

        return batch.rows(reduce, temporaries=self.temporaries, squared=True)[:, 0]
