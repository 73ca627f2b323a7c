"""Rows where much is equal or nearly so, for hypothesis: what rounding can put into another order."""

import numpy as np
from hypothesis import strategies as st

KINDS = ("random", "duplicates", "lattice", "one-hot", "collapsed", "near", "zeros")


def made_rows(kind: str, count: int, dim: int, seed: int) -> np.ndarray:
    """Return (count, dim) float64 rows: unit ones, or zeros here and there."""
    draw = np.random.default_rng(seed)
    rows = draw.normal(size=(count, dim))
    if kind == "duplicates":
        rows = rows[draw.integers(0, max(1, count // 5), count)]
    elif kind == "lattice":
        rows = draw.integers(-1, 2, (count, dim)).astype(float)
    elif kind == "one-hot":
        rows = np.eye(dim)[draw.integers(0, dim, count)]
    elif kind == "collapsed":
        rows = np.tile(rows[:1], (count, 1))
    elif kind == "near":  # apart by about what float32 rounds by
        rows = rows[:1] + 3e-7 * draw.normal(size=(count, dim)) * draw.integers(0, 2, (count, 1))
    elif kind == "zeros":
        rows = rows[draw.integers(0, max(1, count // 3), count)] * (draw.random((count, 1)) < 0.7)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


@st.composite
def batches(draw, most_rows: int = 80, dims: tuple[int, ...] = (1, 3, 16, 65)) -> np.ndarray:
    """Return rows of some kind."""
    kind, count, dim = draw(st.sampled_from(KINDS)), draw(st.integers(2, most_rows)), draw(st.sampled_from(dims))
    return made_rows(kind, count, dim, draw(st.integers(0, 2**20)))
