"""Pixels of an outline: every pixel counts how many of its 4 × 4 sample points lie inside, 0 to 16.

Inside is where the outline winds round a point (the non-zero rule, as TrueType means it). Points are rounded to
1/64 of a sample before anything is decided, and each decision is one division and one comparison of float64, which
IEEE 754 defines to the last bit: the same counts on every processor.
"""

import math

import numpy as np

from tools.glyphs.outlines import Outline

SAMPLES = 4  # per pixel and axis
GRID = 64  # places of a point between two samples


def place(
    polygons: Outline, degrees: float, longest: float, size: int, at: tuple[float, float], *, stretch: bool = False
) -> Outline:
    """Return an outline turned, scaled until its longer side is `longest` pixels, and moved into a square of `size`.

    `at` is where it lies, by fractions of the room that it has there: (0.5, 0.5) is the middle. Stretched, both sides
    become `longest`. What is returned is in samples.
    """
    cos, sin = (round(turn(math.radians(degrees)) * 2**20) / 2**20 for turn in (math.cos, math.sin))
    turned = [np.stack([cos * p[:, 0] - sin * p[:, 1], -sin * p[:, 0] - cos * p[:, 1]], axis=1) for p in polygons]
    every = np.concatenate(turned)
    low, extent = every.min(axis=0), np.ptp(every, axis=0)
    scale = longest / (extent if stretch else extent.max())
    corner = (size - extent * scale) * np.array(at)
    return [np.rint(((p - low) * scale + corner) * (SAMPLES * GRID)) / GRID for p in turned]


def count_samples(polygons: Outline, size: int) -> np.ndarray:
    """Return how many sample points of each pixel are inside of polygons in sample units, (size, size) uint8."""
    side = size * SAMPLES
    x, y = np.concatenate(polygons).T[:, :, None]  # (edges, 1) each
    to_x, to_y = np.concatenate([np.roll(p, -1, axis=0) for p in polygons]).T[:, :, None]
    rows = np.arange(side) + 0.5
    edge, row = np.nonzero((rows >= np.minimum(y, to_y)) & (rows < np.maximum(y, to_y)))
    x, y, to_x, to_y = (values[edge, 0] for values in (x, y, to_x, to_y))
    crossing = x + (rows[row] - y) * (to_x - x) / (to_y - y)
    column = np.clip(np.ceil(crossing - 0.5), 0, side).astype(np.int64)  # the first sample right of the edge
    winding = np.zeros((side, side + 1), dtype=np.int64)
    np.add.at(winding, (row, column), np.where(to_y > y, 1, -1))
    inside = winding.cumsum(axis=1)[:, :side] != 0
    return inside.reshape(size, SAMPLES, size, SAMPLES).sum(axis=(1, 3)).astype(np.uint8)
