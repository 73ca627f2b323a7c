"""From dot products and squared lengths to the quantities that losses compare.

Every loss here is a function of dot products and lengths only; that is what makes it memory-linear.
The functions work on pair lists and on blocks alike: squares broadcast against the dot products. On unit rows the dot
product is the cosine and both squares are 1. Where a function has a kink or a pole it gives no gradient there: of
equal rows distance, gap and angle are at their least, and pull nowhere.
"""

import torch
from torch import Tensor

COSINE_EDGE = 1e-7  # arccos has an infinite slope at -1 and 1; cosines stay this far inside


def similarity(dots: Tensor, square: Tensor, other_square: Tensor) -> Tensor:
    """Return a.x, which is the cosine of unit rows."""
    return dots


def squared_distance(dots: Tensor, square: Tensor, other_square: Tensor) -> Tensor:
    """Return |a - x|^2 = |a|^2 + |x|^2 - 2 a.x."""
    return (square + other_square - 2 * dots).clamp_min(0)


def distance(dots: Tensor, square: Tensor, other_square: Tensor) -> Tensor:
    """Return the Euclidean distance |a - x|."""
    return root(squared_distance(dots, square, other_square))


def angle(dots: Tensor, square: Tensor, other_square: Tensor) -> Tensor:
    """Return the angle between a and x in radians; a zero row is orthogonal to every row."""
    lengths = root(square * other_square)
    cosine = dots / torch.where(lengths > 0, lengths, 1.0)
    return torch.arccos(cosine.clamp(-1 + COSINE_EDGE, 1 - COSINE_EDGE))


def root(squares: Tensor) -> Tensor:
    """Return square roots, with a slope of 0 instead of infinity at 0."""
    none = squares <= 0
    return squares.masked_fill(none, 1.0).sqrt().masked_fill(none, 0.0)
