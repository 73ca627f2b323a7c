"""Recall@K in the sense of information retrieval: which share of the relevant items is among the first K?

    ir_recall_at_k(query) = (number of relevant items among the first K) / R

Not the recall of metric learning's tables (`recall`), which asks for any one of them. It is Precision@K times K / R,
so it comes with that measure. Edge cases: at most K / R, so 1 is out of reach where K is below R; 1 where K is the
whole gallery.
"""

from torch import Tensor

from shadowmetric.evaluation.hits import Hits


def ir_recall_at_k(hits: Hits, k: int) -> Tensor:
    """Return the share of each query, NaN for lone ones."""
    return hits.mask_lone(hits.hit[:, :k].sum(1).double() / hits.relevant)
