"""Triplets in their promised order: by anchor, then positive, then negative.

Memory: besides the parts and the result, the order and one column at a time: 16 bytes a triplet.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from shadowmetric.mining.checked_batch import Mined
from shadowmetric.types import Triplets


def no_triplets(device: torch.device) -> Triplets:
    """Return an empty set of triplets."""
    return Triplets(*(torch.empty(0, dtype=torch.int64, device=device) for _ in range(3)))


def join_triplets(parts: Sequence[Triplets]) -> Triplets:
    """Join sets of triplets."""
    return Triplets(*(torch.cat(columns) for columns in zip(*parts, strict=True)))


def order_triplets(parts: Sequence[Triplets], *, several: bool = False) -> Triplets:
    """Join sets of triplets and order them. several: an (anchor, positive) pair may have several negatives."""
    order = their_order(parts, several=several)
    return Triplets(*(torch.cat(columns)[order] for columns in zip(*parts, strict=True)))


def in_order(parts: Sequence[Mined]) -> Mined:
    """Join mined triplets whose distances are known, and order them."""
    triplets = [part.triplets for part in parts]
    order = their_order(triplets)
    closer, farther = (torch.cat(column)[order] for column in zip(*(part.squared or () for part in parts), strict=True))
    return Mined(Triplets(*(torch.cat(column)[order] for column in zip(*triplets, strict=True))), (closer, farther))


def their_order(parts: Sequence[Triplets], *, several: bool = False) -> Tensor:
    """Return the permutation that orders the triplets of all parts by anchor, then positive, then negative."""
    positive = torch.cat([part.positive for part in parts])
    if len(positive) == 0:
        return positive
    pair = torch.cat([part.anchor for part in parts]).mul_(positive.max() + 1).add_(positive)
    del positive
    if not several:
        return torch.argsort(pair)
    by_negative = torch.argsort(torch.cat([part.negative for part in parts]))
    return by_negative[torch.argsort(pair[by_negative], stable=True)]
