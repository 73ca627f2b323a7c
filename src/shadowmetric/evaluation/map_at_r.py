"""MAP@R: mean average precision over the first R items, R being the number of relevant ones.

    map_at_r(query) = 1/R * sum over i with rank_i <= R of  i / rank_i

where i / rank_i is the precision at the place of the i-th relevant item. Source: Musgrave, Belongie, Lim,
"A Metric Learning Reality Check" (2020), equation 4. It rewards order and can tell apart what Recall@1 cannot.
"""

import torch
from torch import Tensor

from shadowmetric.evaluation.ranks import Ranks


def map_at_r(ranks: Ranks) -> Tensor:
    """Return the average precision at R of each query, NaN for lone ones."""
    place = torch.arange(1, ranks.rank.shape[1] + 1, device=ranks.rank.device)
    precision = (place / ranks.rank.double()).masked_fill_(ranks.rank > ranks.relevant[:, None], 0.0)
    return ranks.scored(precision.sum(1) / ranks.relevant)
