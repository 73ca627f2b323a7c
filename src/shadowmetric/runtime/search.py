"""The most similar images of an index, by numpy alone.

Naive program: for each query the k largest of rows @ query, equal ones in the order of the index. Rows are stored in
float16. A product in float32, a block at a time, proposes a few rows more than k, whose cosines are then measured
exactly (`exact_cosines.py`); where more than a few lie too near the k-th best to tell, all products are made in
float64, where they are exact. So cosines and order are those of `file_gallery.py`, bit for bit, on any machine.

Memory: one block of rows in float32, its products with a block of queries, and k numbers for each query, whatever the
size of the index.
"""

import difflib
from collections.abc import Sequence

import numpy as np

from .entries import Hit
from .errors import Mistake
from .exact_cosines import SPARE, exact_cosines, is_settled, on_grid, rank_cosines, reach
from .index_file import Contents

BLOCK_NUMBERS = 2**20  # of rows in float32: 4 MiB
QUERIES = 64  # at once


def nearest(contents: Contents, rows: np.ndarray, k: int, label: str | None = None) -> list[list[Hit]]:
    """Return for each row, (queries, dim) float32 of length 1, its k most similar images, best first.

    label: search among the images of this class alone.
    """
    dim = contents.rows.shape[1]
    if rows.ndim != 2 or rows.shape[1] != dim:
        raise ValueError(f"rows have shape {rows.shape}; give (queries, {dim}) as the index has.")
    if k < 1:
        raise Mistake(f"{k} neighbors were asked for; ask for 1 or more.")
    some = None if label is None else numbers_of(contents, label)
    matches = []
    for start in range(0, len(rows), QUERIES):
        matches += best_of(contents.rows, on_grid(rows[start : start + QUERIES]), k, some)
    return [
        [Hit(contents.entry(int(number)), min(float(value), 1.0)) for value, number in zip(*best, strict=True)]
        for best in matches
    ]


def best_of(
    stored: np.ndarray, queries: np.ndarray, k: int, some: np.ndarray | None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return cosines and row numbers of the k best rows for each query on the grid; of some rows, if they are given."""
    count = len(stored) if some is None else len(some)
    few = k + SPARE < count
    proposed = largest(stored, queries if few else queries.astype(np.float64), k + SPARE if few else k, some)
    if not few:
        return proposed
    matches = []
    for query, near, (values, numbers) in zip(queries, reach(queries), proposed, strict=True):
        if is_settled(values[None], k, near)[0]:
            matches.append(rank_cosines(exact_cosines(stored[numbers], query), numbers, k))
        else:
            matches += largest(stored, query[None].astype(np.float64), k, some)
    return matches


def largest(
    stored: np.ndarray, queries: np.ndarray, k: int, some: np.ndarray | None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the k largest products and their rows for each query, in the queries' precision: float64 is exact."""
    count, dim, dtype = len(stored) if some is None else len(some), stored.shape[1], queries.dtype
    block = max(1, min(count, BLOCK_NUMBERS // dim * np.dtype(np.float32).itemsize // dtype.itemsize))
    buffer = np.empty((block, dim), dtype)
    best = [(np.empty(0, dtype), np.empty(0, np.int64)) for _ in queries]
    for start in range(0, count, block):
        numbers = np.arange(start, min(start + block, count)) if some is None else some[start : start + block]
        part = buffer[: len(numbers)]
        part[:] = stored[start : start + len(numbers)] if some is None else stored[numbers]
        values = products(queries, part)  # (queries, block)
        best = [merge_best(*kept, these, numbers, k) for kept, these in zip(best, values, strict=True)]
    return best


def products(queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the product of each query with each row."""
    return queries @ rows.T


def merge_best(
    similarity: np.ndarray, number: np.ndarray, values: np.ndarray, numbers: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best of those kept and of a block behind them, best first, equal ones by their number."""
    if len(similarity) == k:  # an equal one with a larger number is not better
        better = values > similarity[-1]
        values, numbers = values[better], numbers[better]
    if len(values) > k:
        enough = values >= np.partition(values, len(values) - k)[len(values) - k]
        values, numbers = values[enough], numbers[enough]
    similarity, number = np.concatenate([similarity, values]), np.concatenate([number, numbers])
    order = np.argsort(-similarity, kind="stable")[:k]
    return similarity[order], number[order]


def numbers_of(contents: Contents, label: str) -> np.ndarray:
    """Return the rows of a class."""
    if label not in contents.classes:
        raise unknown_class_error(label, contents.classes)
    return np.flatnonzero(np.asarray(contents.labels) == contents.classes.index(label))


def unknown_class_error(label: str, classes: Sequence[str]) -> Mistake:
    """Return the refusal of a class that no image has."""
    near = difflib.get_close_matches(label, classes, n=3, cutoff=0.4) or list(classes[:3])
    such = f", such as {', '.join(near)}" if near else ""
    return Mistake(f"no image has the class {label!r}; there are {len(classes):,}{such}.")
