"""Recall@K in the sense of metric learning: is any relevant item among the first K?

    recall_at_k(query) = 1 if one of its first K items is relevant, else 0

Source: Jegou, Douze, Schmid, "Product quantization for nearest neighbor search" (2011), and every table of
metric learning since Song et al. (2016). It is not the recall of information retrieval, which divides by
the number of relevant items: that one is at most K / R and says little for small K.

Edge cases: K beyond the gallery asks for all of it, so every query that has a relevant item scores 1.
"""

from torch import Tensor

from shadowmetric.evaluation.hits import Hits


def recall_at_k(hits: Hits, k: int) -> Tensor:
    """Return 1 or 0 for each query, NaN for lone ones."""
    return hits.mask_lone(hits.hit[:, :k].any(1))
