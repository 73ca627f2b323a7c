"""Test images as points of a plane, by t-SNE (van der Maaten and Hinton) as openTSNE computes it.

The points are drawn with a seed from the test split alone, so that every run of a dataset shows the same images. A
point is right if its nearest neighbor in what is searched has its class. Distances are cosines, neighbors exact, one
thread: the same rows and seed give the same plane.

t-SNE keeps neighborhoods. Sizes of groups, the room between them and directions in the plane mean nothing.

Memory: points² float64 for a moment, 18 MB for 1,500; time about 6 ms a point.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEAST_POINTS = 10


@dataclass(frozen=True)
class Points:
    """The plane of one run; lists have an entry for each point."""

    numbers: list[int]  # in the test split
    labels: list[int]
    x: list[float]
    y: list[float]
    right: list[bool]
    perplexity: float
    seed: int
    of: int  # images in the test split


def sample(images: int, count: int, seed: int) -> np.ndarray:
    """Return the numbers of the images that are shown, ascending."""
    drawn = np.random.default_rng(seed).permutation(images)[:count]
    return np.sort(drawn)


def points_of(
    rows: np.ndarray, labels: np.ndarray, right: Sequence[bool], numbers: np.ndarray, perplexity: float, seed: int
) -> Points | None:
    """Return the plane of some rows (images, dim) of the test split; None if they are too few, or all the same."""
    some = rows[numbers].astype(np.float64)
    if len(some) < LEAST_POINTS or np.ptp(some, axis=0).max() < 1e-6 * max(1e-12, np.abs(some).max()):
        return None
    from openTSNE import TSNE

    perplexity = min(perplexity, (len(some) - 1) / 3)
    plane = TSNE(
        perplexity=perplexity,  # pyright: ignore[reportArgumentType]  # it takes any number
        metric="cosine",
        neighbors="exact",
        negative_gradient_method="bh",
        random_state=seed,
        n_jobs=1,
    ).fit(some)
    x, y = np.round(np.asarray(plane), 2).T.tolist()
    flags = [bool(right[number]) for number in numbers]
    return Points(numbers.tolist(), labels[numbers].tolist(), x, y, flags, perplexity, seed, len(rows))
