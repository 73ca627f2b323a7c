"""InfoNCE loss (van den Oord et al. 2018, eq. 4), or NT-Xent (Chen et al. 2020): find the positive among negatives.

    loss = mean over positive pairs (i, p) of -log( exp(s_ip / t) / (exp(s_ip / t) + sum over n of exp(s_in / t)) )

s is the cosine and t the temperature. A positive is judged against the negatives of its anchor, not against its other
positives; `SupConLoss` has those in the denominator too. It is the N-pair loss of unit rows, log(1 + sum over n of
exp((s_in - s_ip) / t)), at the temperature that its users know.

Memory: that of `NPairLoss`, the scratch and a few numbers per row.
"""

from collections.abc import Sequence
from typing import Unpack

from torch import Tensor

from shadowmetric.losses.n_pair import NPairLoss
from shadowmetric.losses.row_loss import RowSettings
from shadowmetric.types import AnyLabels, Embeddings, References, Scalar


def info_nce_loss(
    embeddings: Embeddings,
    labels: AnyLabels,
    triplets: Sequence[Tensor] | None = None,
    *,
    temperature: float = 0.07,
    references: References | None = None,
    reference_labels: AnyLabels | None = None,
    **settings: Unpack[RowSettings],
) -> Scalar:
    """Return the InfoNCE loss of a batch, of all pairs or of given triplets."""
    loss = InfoNCELoss(temperature=temperature, **settings)
    return loss(embeddings, labels, triplets, references=references, reference_labels=reference_labels)


class InfoNCELoss(NPairLoss):
    """InfoNCE loss of a batch, NT-Xent where each image has two views.

    slots: the most positives that a row has, per_class - 1 of a batch with per_class rows of each class; None asks the
    labels, for which an accelerator waits once.
    """

    def __init__(self, *, temperature: float = 0.07, **settings: Unpack[RowSettings]):
        super().__init__(temperature=temperature, **settings)
