"""Triplets in their promised order: by anchor, then positive, then negative."""

from collections.abc import Sequence

import torch
from torch import Tensor

from shadowmetric.types import Triplets


def no_triplets(device: torch.device) -> Triplets:
    """Return an empty set of triplets."""
    return Triplets(*(torch.empty(0, dtype=torch.int64, device=device) for _ in range(3)))


def joined(parts: Sequence[Triplets]) -> Triplets:
    """Join sets of triplets."""
    return Triplets(*(torch.cat(columns) for columns in zip(*parts, strict=True)))


def ordered(parts: Sequence[Triplets], *, several: bool = False) -> Triplets:
    """Join sets of triplets and order them. several: an (anchor, positive) pair may have several negatives."""
    triplets = joined(parts)
    order = their_order(triplets, several=several)
    return Triplets(*(column[order] for column in triplets))


def their_order(triplets: Triplets, *, several: bool = False) -> Tensor:
    """Return the permutation that orders triplets by anchor, then positive, then negative."""
    if len(triplets.anchor) == 0:
        return triplets.anchor
    pair = triplets.anchor * (triplets.positive.max() + 1) + triplets.positive
    if not several:
        return torch.argsort(pair)
    by_negative = torch.argsort(triplets.negative)
    return by_negative[torch.argsort(pair[by_negative], stable=True)]
