"""Reciprocal rank: one over the place of the best relevant item. Its mean over queries is MRR.

    reciprocal_rank(query) = 1 / rank of its best relevant item

Source: Voorhees, "The TREC-8 question answering track report" (1999). The rank is exact however far it is:
where the other measures stop looking, the items above the best relevant one are counted in a pass of their own.
"""

import torch
from torch import Tensor

from shadowmetric.evaluation.comparison import Sets, compare, in_order_of_queries
from shadowmetric.evaluation.hits import NOWHERE, Hits, first_places
from shadowmetric.ops.similarity_blocks import Progress

FAR = torch.iinfo(torch.int64).max


def first_hit(hits: Hits) -> Tensor:
    """Return the place of the first hit of each query, FAR if there is none up to the limit: (rows,) int64."""
    return torch.where(hits.hit, hits.places(), FAR).amin(1)


def reciprocal_rank(
    sets: Sets, first: Tensor, closest: Tensor, *, scratch_bytes: int, progress: Progress | None = None
) -> Tensor:
    """Return the reciprocal rank of each query, NaN for lone ones.

    first: the place of each query's best relevant item, or FAR; closest: its similarity, NOWHERE for lone queries.
    """
    lone = closest == NOWHERE
    far = ((first == FAR) & ~lone).nonzero()[:, 0]
    place = first.clone()
    if len(far):
        comparison = compare(sets.some(far), scratch_bytes)
        bars = closest[far][comparison.order]
        places = first_places(comparison, bars, scratch_bytes=scratch_bytes, progress=progress)
        place[far] = in_order_of_queries(places, comparison.order)
    return torch.where(lone, torch.nan, 1 / place.double())
