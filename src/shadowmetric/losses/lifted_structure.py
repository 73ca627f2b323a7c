"""Lifted-structure loss (Oh Song et al.): each positive pair against all negatives of both its rows.

    L_i = log sum over negatives n of i of exp(margin - d_in)          d: Euclidean distance
    J_ij = log(exp L_i + exp L_j) + d_ij
    loss = mean over positive pairs of max(J_ij, 0)^2 / 2

The sum over negatives belongs to a row, not to a pair, so it is streamed, with the distances to the row's positives,
and pairs combine two of the sums. Where one large class would leave most places of positives empty (more than two for
each pair), pairs are measured as a list instead.

Memory: the scratch, and a few numbers per row and positive pair.
"""

from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor

from shadowmetric.checks import check_margin
from shadowmetric.losses.distances import distance, root
from shadowmetric.losses.row_loss import Batch, Reduce, RowLoss, RowSettings, log_sum_exp_without
from shadowmetric.losses.sums import Sums, mean_of_real
from shadowmetric.types import AnyLabels, Embeddings, References, Scalar

LEAST = -1e30  # L of a row without negatives, whose exponential is 0
FEW_PLACES = 2**10  # never too many
WASTED = 2  # places for each positive pair, at most


def lifted_structure_loss(
    embeddings: Embeddings,
    labels: AnyLabels,
    triplets: Sequence[Tensor] | None = None,
    *,
    margin: float = 1.0,
    references: References | None = None,
    reference_labels: AnyLabels | None = None,
    **settings: Unpack[RowSettings],
) -> Scalar:
    """Return the lifted-structure loss of a batch, of all pairs or of given triplets."""
    loss = LiftedStructureLoss(margin=margin, **settings)
    return loss(embeddings, labels, triplets, references=references, reference_labels=reference_labels)


class LiftedStructureLoss(RowLoss):
    """Lifted-structure loss of a batch. margin is in distance.

    With references the negatives of a positive are references too.
    slots: the most positives that a row has, per_class - 1 of a batch with per_class rows of each class; None asks the
    labels, for which an accelerator waits once.
    """

    unit = "distance"
    temporaries = 12.0
    pair_kept, pair_peak = (33, 9), (40, 13)

    def __init__(self, margin: float = 1.0, **settings: Unpack[RowSettings]):
        super().__init__(**settings)
        self.margin = check_margin(margin)

    def batch_sums(self, batch: Batch) -> Sums:
        """Return the sums of a mean over positive pairs."""
        places = batch.pairs.positives()
        slots, total = (self.slots, None) if self.slots is not None else places.sizes()
        if total is not None and len(places.count) * slots > max(FEW_PLACES, WASTED * total):
            anchor, positive, real = places.all(None)
            crowd = self._stream(batch)
            apart = batch.measure(anchor, positive, distance)
            return self._pair_sums(batch, crowd, crowd[anchor, 0], positive, real, apart)
        slots = places.slots(slots, debug=self.debug)
        positive, real = places.of(0, len(places.count), slots)
        crowd, apart = self._stream(batch, positive).split([1, slots], 1)
        return self._pair_sums(batch, crowd, crowd, positive, real, apart)

    def _pair_sums(
        self, batch: Batch, crowd: Tensor, of_anchor: Tensor, positive: Tensor, real: Tensor | None, apart: Tensor
    ) -> Sums:
        """Return the sums of pairs from L of all rows, L of each pair's anchor, its positive and its distance."""
        others = crowd if batch.checked.references is None else self._stream(batch.of_references())
        both = torch.logaddexp(of_anchor, others.view(-1)[positive])
        return mean_of_real(torch.relu(both + apart).square() / 2, real)

    def _stream(self, batch: Batch, positives: Tensor | None = None) -> Tensor:
        """Return L of each row, about LEAST without negatives, and the distances to its positives if they are given."""
        pairs = batch.pairs

        def reducer(start: int, stop: int) -> Reduce:
            excluded = pairs.not_negative(start, stop)
            positive = None if positives is None else positives[start:stop]
            return lambda squared: self._row_values(squared, excluded, positive)

        return batch.rows(
            reducer,
            temporaries=self.temporaries,
            squared=True,
            outputs=1 if positives is None else 1 + positives.shape[1],
        )

    def _row_values(self, squared: Tensor, excluded: Tensor, positive: Tensor | None) -> Tensor:
        apart = root(squared)
        crowd = log_sum_exp_without(self.margin - apart, excluded, LEAST)
        return crowd if positive is None else torch.cat([crowd, apart.gather(1, positive)], 1)
