"""NDCG@K: normalized discounted cumulative gain, which knows degrees of relevance.

    DCG@K(query)  = sum over the places j = 1 .. K of  grade of the item at place j / log2(j + 1)
    NDCG@K(query) = DCG@K / the DCG@K of the best order there is

Source: Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques" (2002), with grades as gains. Items
of equal similarity share their places: each of them counts with the mean of their grades, as in McSherry and Najork
(2008) and in scikit-learn's `ndcg_score`, so that neither chance nor the order of the gallery decides. A query whose
items all have grade 0 is lone: NaN. With one label for each row an item of the query's class has grade 1.
"""

import torch
from torch import Tensor

PLACES = 2  # numbers of a row's first K places, and as many of their grades


def ndcg_at_k(similarity: Tensor, grades: Tensor, k: int) -> Tensor:
    """Return the NDCG@K of whole rows of the gallery: (rows,) float64. What is to be left out has grade 0 and is last.

    similarity, grades: (rows, gallery). k: at most the gallery.
    """
    best = similarity.topk(k, dim=1)
    value, gain = best.values, grades.gather(1, best.indices).double()
    last = value[:, -1:]
    level = similarity == last  # items that share the last place may lie beyond it
    of_last = torch.where(level, grades, 0.0).sum(1, keepdim=True, dtype=torch.float64) / level.sum(1, keepdim=True)
    first = torch.cat([torch.zeros_like(value[:, :1], dtype=torch.int64), (value[:, 1:] != value[:, :-1]).long()], 1)
    group = first.cumsum(1)
    sums, sizes = torch.zeros_like(gain), torch.zeros_like(gain)
    sums.scatter_add_(1, group, gain)
    sizes.scatter_add_(1, group, torch.ones_like(gain))
    shared = torch.where(value == last, of_last, (sums / sizes.clamp_min(1)).gather(1, group))
    discount = 1 / torch.log2(torch.arange(2, k + 2, device=value.device, dtype=torch.float64))
    ideal = (grades.topk(k, dim=1).values.double() * discount).sum(1)
    return torch.where(ideal > 0, (shared * discount).sum(1) / ideal, torch.nan)
