"""Precision@K: which share of the first K items is relevant?

    precision_at_k(query) = (number of relevant ranks <= K) / K

At K = 1 it equals Recall@1. Edge cases: with fewer than K relevant items it cannot reach 1 (R-precision
can); K beyond the gallery still divides by K.
"""

from torch import Tensor

from shadowmetric.evaluation.ranks import Ranks


def precision_at_k(ranks: Ranks, k: int) -> Tensor:
    """Return the precision of each query, NaN for lone ones."""
    return ranks.scored((ranks.rank <= k).sum(1).double() / k)
