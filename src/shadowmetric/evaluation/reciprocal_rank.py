"""Reciprocal rank: one over the place of the best relevant item. Its mean over queries is MRR.

    reciprocal_rank(query) = 1 / rank of its best relevant item

Source: Voorhees, "The TREC-8 question answering track report" (1999). The rank is exact however far it is:
where the other measures stop looking, the items above the best relevant one are counted in a pass of their own.
"""

import torch
from torch import Tensor

from shadowmetric.evaluation.comparison import Sets, compare, in_order_of_queries
from shadowmetric.evaluation.ranks import first_ranks
from shadowmetric.ops.similarity_blocks import Progress


def reciprocal_rank(
    sets: Sets,
    first: Tensor,
    closest: Tensor,
    far: Tensor,
    *,
    scratch_bytes: int,
    progress: Progress | None = None,
) -> Tensor:
    """Return the reciprocal rank of each query, NaN for lone ones.

    first: the rank of each query's best relevant item, and closest: its similarity; far: the queries, by number,
    for which that rank is only known to lie beyond.
    """
    rank = first.double()
    if len(far):
        comparison = compare(sets.some(far), scratch_bytes)
        order = comparison.order
        found = first_ranks(comparison, closest[far][order], scratch_bytes=scratch_bytes, progress=progress)
        rank[far] = in_order_of_queries(found, order).double()
    return torch.where(closest > float("-inf"), 1 / rank, torch.nan)
