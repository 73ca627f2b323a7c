"""Triplets in their promised order: by anchor, then positive, then negative."""

from collections.abc import Sequence

import torch

from shadowmetric.types import Triplets


def no_triplets(device: torch.device) -> Triplets:
    """Return an empty set of triplets."""
    return Triplets(*(torch.empty(0, dtype=torch.int64, device=device) for _ in range(3)))


def ordered(parts: Sequence[Triplets], *, several: bool = False) -> Triplets:
    """Join sets of triplets and order them. several: an (anchor, positive) pair may have several negatives."""
    triplets = Triplets(*(torch.cat(columns) for columns in zip(*parts, strict=True)))
    if len(triplets.anchor) == 0:
        return triplets
    pair = triplets.anchor * (int(triplets.positive.max()) + 1) + triplets.positive
    if several:
        by_negative = torch.argsort(triplets.negative)
        order = by_negative[torch.argsort(pair[by_negative], stable=True)]
    else:
        order = torch.argsort(pair)
    return Triplets(*(column[order] for column in triplets))
