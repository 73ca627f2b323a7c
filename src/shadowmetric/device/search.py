"""The most similar pictures of an index, by numpy alone.

Naive program: for each query the k largest of rows @ query, equal ones in the order of the index. Rows are stored in
float16 and compared in float32, a block at a time, as `serving/file_gallery.py` does with torch; the two agree but for
rounding.

Memory: one block of rows in float32, its products with a block of queries, and k numbers for each query, whatever the
size of the index.
"""

import difflib
from collections.abc import Sequence

import numpy as np

from .entries import Hit
from .index_file import Contents
from .mistake import Mistake

BLOCK_NUMBERS = 2**20  # of rows in float32: 4 MiB
QUERIES = 64  # at once


def nearest(contents: Contents, rows: np.ndarray, k: int, label: str | None = None) -> list[list[Hit]]:
    """Return for each row, (queries, dim) float32 of length 1, its k most similar pictures, best first.

    label: search among the pictures of this class alone.
    """
    dim = contents.rows.shape[1]
    if rows.ndim != 2 or rows.shape[1] != dim:
        raise ValueError(f"rows have shape {rows.shape}; give (queries, {dim}) as the index has.")
    if k < 1:
        raise Mistake(f"{k} neighbours were asked for; ask for 1 or more.")
    some = None if label is None else numbers_of(contents, label)
    found = []
    for start in range(0, len(rows), QUERIES):
        found += best_of(contents.rows, rows[start : start + QUERIES].astype(np.float32), k, some)
    return [
        [Hit(contents.entry(int(number)), min(float(value), 1.0)) for value, number in zip(*best, strict=True)]
        for best in found
    ]


def best_of(
    stored: np.ndarray, queries: np.ndarray, k: int, some: np.ndarray | None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return similarities and row numbers of the k best rows for each query; of some rows, if they are given."""
    count, dim = len(stored) if some is None else len(some), stored.shape[1]
    block = max(1, min(count, BLOCK_NUMBERS // dim))
    buffer = np.empty((block, dim), np.float32)
    best = [(np.empty(0, np.float32), np.empty(0, np.int64)) for _ in queries]
    for start in range(0, count, block):
        numbers = np.arange(start, min(start + block, count)) if some is None else some[start : start + block]
        part = buffer[: len(numbers)]
        part[:] = stored[start : start + len(numbers)] if some is None else stored[numbers]
        products = queries @ part.T  # (queries, block)
        best = [merged(*kept, values, numbers, k) for kept, values in zip(best, products, strict=True)]
    return best


def merged(
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
        raise unknown_class(label, contents.classes)
    return np.flatnonzero(np.asarray(contents.labels) == contents.classes.index(label))


def unknown_class(label: str, classes: Sequence[str]) -> Mistake:
    """Return the refusal of a class that no picture has."""
    near = difflib.get_close_matches(label, classes, n=3, cutoff=0.4) or list(classes[:3])
    such = f", such as {', '.join(near)}" if near else ""
    return Mistake(f"no picture has the class {label!r}; there are {len(classes):,}{such}.")
