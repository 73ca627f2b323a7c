"""From dot products and lengths to the quantities that losses compare.

Every loss here is a function of dot products and lengths only; that is what makes it memory-linear.
The functions work on pair lists and on blocks alike: lengths broadcast against the dot products.
"""

import torch
from torch import Tensor

SMALLEST_SQUARE = 1e-16  # under a root: duplicates get a distance of 1e-8, and no gradient instead of an infinite one


def compared(dots: Tensor, length: Tensor, other_length: Tensor, *, normalize: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return dot products and lengths as they are, or of unit rows. A zero row is orthogonal to every row."""
    if not normalize:
        return dots, length, other_length
    one = torch.ones((), dtype=dots.dtype, device=dots.device)
    return dots / (length * other_length), one, one


def squared_distance(dots: Tensor, length: Tensor, other_length: Tensor) -> Tensor:
    """Return |a - x|^2 = |a|^2 + |x|^2 - 2 a.x."""
    return length.square() + other_length.square() - 2 * dots


def distance(dots: Tensor, length: Tensor, other_length: Tensor) -> Tensor:
    """Return the Euclidean distance |a - x|."""
    return squared_distance(dots, length, other_length).clamp_min(SMALLEST_SQUARE).sqrt()


def angle(dots: Tensor, length: Tensor, other_length: Tensor) -> Tensor:
    """Return the angle between a and x in radians. The root in its gradient is kept finite by a clamp."""
    cosine = dots / (length * other_length)
    return torch.arccos(cosine.clamp(-1 + 1e-7, 1 - 1e-7))
