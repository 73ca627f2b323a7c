"""Multi-Similarity loss (Wang et al. 2019): weigh each pair by its similarity and by its rivals'.

Row i keeps a negative n if s_in > min over positives of s_ip - epsilon, and a positive p if
s_ip < max over negatives of s_in + epsilon. Then

    loss_i = 1/alpha log(1 + sum_p exp(-alpha (s_ip - base))) + 1/beta log(1 + sum_n exp(beta (s_in - base)))

summed over rows and divided by the batch. So a row without positives keeps no negative, and one without negatives no
positive. With epsilon None every pair is kept, those of such rows too.

base is the paper's lambda. The paper prints 1, the authors' code has 0.5, which is the default here: beta is 50, so
that a negative at cosine 0.8 counts exp(-10) at base 1, and exp(15) at 0.5. At 1 negatives hardly push until cosines
approach 1, and a comparison would have a crippled baseline.

Memory: the scratch; rows are streamed and never kept, but for 64 KiB of a small batch.
"""

from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor
from torch.nn.functional import softplus

from shadowmetric.checks import check_margin, check_number
from shadowmetric.losses.row_loss import Batch, Reduce, RowLoss, RowSettings
from shadowmetric.losses.sums import Sums, mean_of
from shadowmetric.mining.pairs import Masks, NamedPairs
from shadowmetric.types import AnyLabels, Embeddings, References, Scalar


def multi_similarity_rows(
    masks: Masks, similarity: Tensor, *, alpha: float, beta: float, base: float, epsilon: float | None
) -> Tensor:
    """Return the loss of each row, (rows, 1)."""
    positive, negative = masks
    if epsilon is not None:
        positives = torch.where(positive, similarity.detach(), float("inf"))
        negatives = torch.where(negative, similarity.detach(), float("-inf"))
        no_pull = positives >= negatives.amax(1, keepdim=True) + epsilon
        no_push = negatives <= positives.amin(1, keepdim=True) - epsilon
    else:
        no_pull, no_push = ~positive, ~negative
    shifted = similarity - base
    pull = shifted.masked_fill(no_pull, float("inf")).mul(-alpha).logsumexp(1, keepdim=True)
    push = shifted.masked_fill(no_push, float("-inf")).mul(beta).logsumexp(1, keepdim=True)
    return softplus(pull) / alpha + softplus(push) / beta


def multi_similarity_loss(
    embeddings: Embeddings,
    labels: AnyLabels,
    triplets: Sequence[Tensor] | None = None,
    *,
    alpha: float = 2.0,
    beta: float = 50.0,
    base: float = 0.5,
    epsilon: float | None = 0.1,
    references: References | None = None,
    reference_labels: AnyLabels | None = None,
    **settings: Unpack[RowSettings],
) -> Scalar:
    """Return the Multi-Similarity loss of a batch, of all pairs or of given triplets."""
    loss = MultiSimilarityLoss(alpha=alpha, beta=beta, base=base, epsilon=epsilon, **settings)
    return loss(embeddings, labels, triplets, references=references, reference_labels=reference_labels)


class MultiSimilarityLoss(RowLoss):
    """Multi-Similarity loss of a batch; similarity is the cosine. Given triplets replace its own choice of pairs.

    epsilon: a pair counts if it is no easier than its hardest rival by more than this; with None every pair counts.
    """

    temporaries = 11.0
    slopes_kept = True

    def __init__(
        self,
        *,
        alpha: float = 2.0,
        beta: float = 50.0,
        base: float = 0.5,
        epsilon: float | None = 0.1,
        **settings: Unpack[RowSettings],
    ):
        super().__init__(**settings)
        self.alpha, self.beta = check_margin(alpha, name="alpha"), check_margin(beta, name="beta")
        self.base = check_number(base, "base")
        self.epsilon = None if epsilon is None else check_number(epsilon, "epsilon")

    def batch_sums(self, batch: Batch) -> Sums:
        """Return the sums of a mean over rows."""
        epsilon = None if isinstance(batch.pairs, NamedPairs) else self.epsilon
        pairs, settings = batch.pairs, {"alpha": self.alpha, "beta": self.beta, "base": self.base, "epsilon": epsilon}

        def reducer(start: int, stop: int) -> Reduce:
            masks = pairs.masks(start, stop)
            return lambda similarity: multi_similarity_rows(masks, similarity, **settings)

        return mean_of(batch.rows(reducer, temporaries=self.temporaries))
