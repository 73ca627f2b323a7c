"""What one would write without this library: triplet losses of mined triplets by one S×S matrix.

    cosine = unit @ unit.T,   squared = 2 - 2 cosine

    semi_hard     for each pair (a, p) the nearest n with squared(a, p) < squared(a, n) < squared(a, p) + window
    hard          for each pair (a, p) the nearest negative of a
    batch_hard    for each a its farthest positive and its nearest negative

The definitions are those of our miners, so values differ by rounding alone. Memory: several S×S tensors, and for
semi_hard several of (positive pairs, S).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from shadowmetric.types import Embeddings, Labels, Scalar

FAR = float("inf")
SCALES = {"shadow": 1.0, "triplet": 2.0}  # of a gap, 1 - cosine, in the unit that the loss compares


class Choice(NamedTuple):
    """Row numbers of triplets, and which of them count."""

    anchor: Tensor
    positive: Tensor
    negative: Tensor
    counts: Tensor


def choose_semi_hard(squared: Tensor, same: Tensor, margin: float) -> Choice:
    """Return a triplet for each positive pair; it counts if the window holds a negative."""
    anchor, positive = without_diagonal(same).nonzero().unbind(1)
    line = squared[anchor]  # (pairs, batch)
    floor = squared[anchor, positive][:, None]
    inside = (line > floor) & (line < floor + margin) & ~same[anchor]
    distance, negative = line.masked_fill(~inside, FAR).min(1)
    return Choice(anchor, positive, negative, distance < FAR)


def choose_hard(squared: Tensor, same: Tensor, margin: float) -> Choice:
    """Return a triplet for each positive pair, with the nearest negative of its anchor."""
    anchor, positive = without_diagonal(same).nonzero().unbind(1)
    distance, negative = squared.masked_fill(same, FAR).min(1)
    return Choice(anchor, positive, negative[anchor], distance[anchor] < FAR)


def choose_batch_hard(squared: Tensor, same: Tensor, margin: float) -> Choice:
    """Return a triplet for each row; it counts if the row has a positive and a negative."""
    near, negative = squared.masked_fill(same, FAR).min(1)
    far, positive = squared.masked_fill(~without_diagonal(same), -FAR).max(1)
    return Choice(torch.arange(len(same), device=same.device), positive, negative, (near < FAR) & (far > -FAR))


CHOICES: dict[str, Callable[[Tensor, Tensor, float], Choice]] = {
    "semi_hard": choose_semi_hard,
    "hard": choose_hard,
    "batch_hard": choose_batch_hard,
}


def dense_loss(embeddings: Embeddings, labels: Labels, *, loss: str, miner: str, margin: float) -> Scalar:
    """Return the mean over mined triplets of max(scale (cosine(a, n) - cosine(a, p)) + margin, 0)."""
    unit = nn.functional.normalize(embeddings)
    cosine = unit @ unit.T
    same = labels[:, None] == labels
    window = 2 * margin / SCALES[loss]  # in squared distance, which is 2 gaps
    anchor, positive, negative, counts = CHOICES[miner](2 - 2 * cosine.detach(), same, window)
    value = torch.relu(SCALES[loss] * (cosine[anchor, negative] - cosine[anchor, positive]) + margin)
    return value.masked_fill(~counts, 0.0).sum() / counts.sum().clamp_min(1)


def without_diagonal(same: Tensor) -> Tensor:
    """Return which pairs of rows are positives."""
    return same & ~torch.eye(len(same), dtype=torch.bool, device=same.device)
