"""The measures and hinges of mined losses with their slopes written down, in numpy.

Asking autograd for the slopes of some hundred pairs takes longer than all else that a batch of 32 needs, so a small
batch on a CPU uses these. They are functions of the exact squared distance d of unit rows, whose cosine is 1 - d / 2:

    measure              slope along the cosine
    gap        d / 2     -1
    squared    d         -2
    distance   sqrt(d)   -1 / sqrt(d)
    angle      arccos    -1 / sin(angle)

and 0 where d is 0: equal rows pull nowhere. `tests/losses/test_slopes.py` holds each to autograd's.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy

from shadowmetric.losses.distances import COSINE_EDGE
from shadowmetric.ops.arrays import Array

WithSlope = Callable[[Array], tuple[Array, Array]]


class Slopes(NamedTuple):
    """A loss of triplets of unit rows: what it compares, and its price of closer - farther + margin."""

    measure: WithSlope  # squared distance -> what is compared, and its slope along the cosine
    hinge: WithSlope  # closer - farther + margin -> value, and its slope


def gap_and_slope(squared: Array) -> tuple[Array, Array]:
    """Return 1 - cos, and its slope."""
    return squared * 0.5, numpy.sign(-squared)


def squared_distance_and_slope(squared: Array) -> tuple[Array, Array]:
    """Return the squared distance, and its slope."""
    return squared, -2.0 * numpy.sign(squared)


def distance_and_slope(squared: Array) -> tuple[Array, Array]:
    """Return the distance, and its slope."""
    root = numpy.sqrt(squared)
    return root, -_inverse(root)


def angle_and_slope(squared: Array) -> tuple[Array, Array]:
    """Return the angle, and its slope; cosines are kept off -1 and 1 as in `distances.angle`."""
    cosine = 1 - squared * 0.5
    inside = numpy.clip(cosine, COSINE_EDGE - 1, 1 - COSINE_EDGE)
    return numpy.arccos(inside), numpy.where(inside == cosine, -1 / numpy.sqrt(1 - inside * inside), 0.0)


def relu_and_slope(difference: Array) -> tuple[Array, Array]:
    """Return what is above 0, and its slope."""
    slope = (difference > 0).astype(difference.dtype)
    return difference * slope, slope


def softplus_and_slope(difference: Array) -> tuple[Array, Array]:
    """Return log(1 + exp(difference)), and its slope."""
    value = numpy.logaddexp(0.0, difference)
    return value, numpy.exp(difference - value)


def _inverse(root: Array) -> Array:
    return numpy.where(root > 0, 1 / numpy.where(root > 0, root, 1.0), 0.0)
