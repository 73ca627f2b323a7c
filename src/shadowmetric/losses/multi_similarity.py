"""Multi-Similarity loss (Wang et al. 2019): weigh each pair by its similarity and by its rivals'.

Row i keeps a negative n if s_in > min over positives of s_ip - epsilon, and a positive p if
s_ip < max over negatives of s_in + epsilon. Then

    loss_i = 1/alpha log(1 + sum_p exp(-alpha (s_ip - base))) + 1/beta log(1 + sum_n exp(beta (s_in - base)))

summed over rows and divided by the batch. base is the paper's lambda; the paper says 1 (at which the
negative term is nearly dead until cosines approach 1), the authors' code 0.5.

Memory: the scratch; rows are streamed and never kept.
"""

from typing import Any

import torch
from torch import Tensor

from shadowmetric.checks import check_margin, check_number
from shadowmetric.losses.row_loss import Batch, Reduce, RowLoss, masked_log_sum_exp
from shadowmetric.losses.sums import Sums, mean_of
from shadowmetric.mining.pairs import Masks, NamedPairs


def multi_similarity_rows(
    masks: Masks, similarity: Tensor, *, alpha: float, beta: float, base: float, epsilon: float | None
) -> Tensor:
    """Return the loss of each row; epsilon None keeps every pair."""
    positive, negative = masks
    if epsilon is not None:
        hardest_positive = torch.where(positive, similarity, float("inf")).amin(1, keepdim=True)
        hardest_negative = torch.where(negative, similarity, float("-inf")).amax(1, keepdim=True)
        both = positive.any(1, keepdim=True) & negative.any(1, keepdim=True)
        positive = positive & both & (similarity < hardest_negative + epsilon)
        negative = negative & both & (similarity > hardest_positive - epsilon)
    pull = masked_log_sum_exp(-alpha * (similarity - base), positive)
    push = masked_log_sum_exp(beta * (similarity - base), negative)
    return torch.nn.functional.softplus(pull) / alpha + torch.nn.functional.softplus(push) / beta


class MultiSimilarityLoss(RowLoss):
    """Multi-Similarity loss of a batch; similarity is the cosine. Given triplets replace its own choice of pairs."""

    temporaries = 16.0

    def __init__(
        self, *, alpha: float = 2.0, beta: float = 50.0, base: float = 1.0, epsilon: float = 0.1, **settings: Any
    ):
        super().__init__(**settings)
        self.alpha, self.beta = check_margin(alpha, name="alpha"), check_margin(beta, name="beta")
        self.base, self.epsilon = check_number(base, "base"), check_number(epsilon, "epsilon")

    def batch_sums(self, batch: Batch) -> Sums:
        """Return the sums of a mean over rows."""
        epsilon = None if isinstance(batch.pairs, NamedPairs) else self.epsilon
        pairs, settings = batch.pairs, {"alpha": self.alpha, "beta": self.beta, "base": self.base, "epsilon": epsilon}

        def reducer(start: int, stop: int) -> Reduce:
            masks = pairs.masks(start, stop)
            return lambda similarity: multi_similarity_rows(masks, similarity, **settings)[:, None]

        return mean_of(batch.rows(reducer, temporaries=self.temporaries)[:, 0])
