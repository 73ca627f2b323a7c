"""MAP@R: mean average precision over the first R items, R being the number of relevant ones.

    map_at_r(query) = 1/R * sum over the places j <= R that hold a relevant item of  precision at j

where the precision at j is the share of relevant items among the first j. Source: Musgrave, Belongie, Lim,
"A Metric Learning Reality Check" (2020), equation 4. It rewards order and can tell apart what Recall@1 cannot.
"""

import torch
from torch import Tensor

from shadowmetric.evaluation.hits import Hits


def map_at_r(hits: Hits) -> Tensor:
    """Return the average precision at R of each query, NaN for lone ones."""
    hit = hits.among_first_r()
    precision = hit.cumsum(1, dtype=torch.int32) / hits.places()[: hit.shape[1]].double()
    return hits.mask_lone(precision.mul_(hit).sum(1) / hits.relevant)
