"""Precision@K: which share of the first K items is relevant?

    precision_at_k(query) = (number of relevant items among the first K) / K

At K = 1 it equals Recall@1. Edge cases: with fewer than K relevant items it cannot reach 1 (R-precision
can); K beyond the gallery still divides by K.
"""

from torch import Tensor

from shadowmetric.evaluation.hits import Hits


def precision_at_k(hits: Hits, k: int) -> Tensor:
    """Return the precision of each query, NaN for lone ones."""
    return hits.mask_lone(hits.hit[:, :k].sum(1).double() / k)
