"""A gallery in one file, mapped into memory and searched by the one block loop; or by faiss, if it was asked to be.

Exact search makes the product of the queries with every row, a block at a time (`ops/top_k.py`). Rows are stored in
float16. The product in float32, or faiss, proposes a few rows more than are asked for; their cosines are measured
exactly (`runtime/exact_cosines.py`), and so are all where more than a few lie too near the k-th best to tell. So what
exact search finds is ordered by cosine, then by row, the same on any machine. A class is searched exactly even in an
approximate index: it is small, and faiss would have to throw most of what it finds away.

Memory: the scratch, and the pages of the file, which the system takes back when it needs them; once an image is asked
for by its key, about 150 bytes an image.
"""

import functools
import threading
from pathlib import Path

import numpy as np
import torch

from shadowmetric.app.serving.galleries.own_copy import own_copy
from shadowmetric.errors import Mistake
from shadowmetric.ops.rows import Rows
from shadowmetric.ops.top_k import top_k
from shadowmetric.runtime.entries import About, Entry, Hit, key_of
from shadowmetric.runtime.exact_cosines import SPARE, exact_cosines, is_settled, on_grid, rank_cosines, reach
from shadowmetric.runtime.index_file import read_index
from shadowmetric.runtime.search import numbers_of

FEW = 16  # times as many rows as are proposed: then proposing pays


class FileGallery:
    """The images of an index file; own: searched in a copy that nobody else can change (`own_copy.py`)."""

    def __init__(self, path: Path, *, own: bool = False):
        self.path = path
        self.about: About
        self.about, self.contents = read_index(path, copied=own_copy if own else None)
        self.lock = threading.Lock()  # two threads need not make all keys at once
        self.faiss = None
        if self.contents.approximate is not None:
            from shadowmetric.app.serving.galleries.approximate import open_searcher

            self.faiss = open_searcher(self.contents.approximate, path, len(self.contents), self.about.dim)

    def __len__(self) -> int:
        return len(self.contents)

    def classes(self) -> dict[str, int]:
        """Return how many images each class has."""
        labels = np.asarray(self.contents.labels)
        counts = np.bincount(labels[labels >= 0], minlength=len(self.contents.classes))
        return dict(zip(self.contents.classes, counts.tolist(), strict=True))

    def nearest(self, rows: np.ndarray, k: int, label: str | None = None) -> list[list[Hit]]:
        """Return the k most similar images of each row, best first."""
        check_rows(rows, self.about.dim, k)
        k = min(k, max(1, len(self)))  # faiss makes room for all that is asked for
        similarity, number = self.find(rows, k, None if label is None else numbers_of(self.contents, label))
        return [
            [Hit(self.contents.entry(place), min(value, 1.0)) for value, place in zip(*result, strict=True)]
            for result in zip(similarity.tolist(), number.tolist(), strict=True)
        ]

    def find(self, rows: np.ndarray, k: int, some: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return cosines and row numbers, (queries, k); approximate ones only if there are enough of them."""
        if some is None and self.faiss is not None and len(self):
            from shadowmetric.app.serving.galleries.approximate import search_approximate

            number = search_approximate(self.faiss, rows, min(k + SPARE, len(self)))
            if (number >= 0).sum(1).min(initial=k) >= k:
                return self.measure(on_grid(rows), number, k)
        return self.exact(rows, k, some)

    def exact(self, rows: np.ndarray, k: int, some: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return cosines and row numbers, (queries, k), of the most similar rows, or of the most similar of some."""
        count = len(self if some is None else some)
        queries, k = on_grid(rows), min(k, count)
        if not count:
            return np.empty((len(rows), 0)), np.empty((len(rows), 0), np.int64)
        if FEW * (k + SPARE) > count:
            return self.largest(queries.astype(np.float64), k, some)
        products, number = self.largest(queries, k + SPARE, some)
        similarity, number = self.measure(queries, number, k)
        doubtful = np.flatnonzero(~is_settled(products, k, reach(queries)))
        if len(doubtful):
            similarity[doubtful], number[doubtful] = self.largest(queries[doubtful].astype(np.float64), k, some)
        return similarity, number

    def largest(self, queries: np.ndarray, k: int, some: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the k largest products and their rows, in the queries' precision: float64 is exact."""
        order = None if some is None else torch.from_numpy(some)
        left = Rows(torch.from_numpy(queries))
        neighbors = top_k(left, Rows(self.tensor, order=order, dtype=left.dtype), k)
        number = neighbors.row if order is None else order[neighbors.row]
        return neighbors.similarity.numpy(), number.numpy()

    def measure(self, queries: np.ndarray, number: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return exact cosines and row numbers of the k best of the proposed rows; those below 0 are none."""
        similarity, best = np.empty((len(queries), k)), np.empty((len(queries), k), np.int64)
        for place, (query, proposed) in enumerate(zip(queries, number, strict=True)):
            proposed = proposed[proposed >= 0]
            similarity[place], best[place] = rank_cosines(
                exact_cosines(self.contents.rows[proposed], query), proposed, k
            )
        return similarity, best

    @functools.cached_property
    def tensor(self) -> torch.Tensor:
        """The rows, as they are mapped. They are read only; torch has no such tensors, and nothing here writes."""
        import warnings

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            return torch.from_numpy(self.contents.rows)

    def entry(self, key: str) -> Entry | None:
        """Return the image with this key, if there is one."""
        number = self.number(key)
        return None if number is None else self.contents.entry(number)

    def row(self, key: str) -> np.ndarray | None:
        """Return its embedding."""
        number = self.number(key)
        return None if number is None else self.contents.rows[number].astype(np.float32)

    def number(self, key: str) -> int | None:
        """Return the row of a key."""
        with self.lock:
            return self.by_key.get(key)

    @functools.cached_property
    def by_key(self) -> dict[str, int]:
        """The row of each key; made when the first is asked for."""
        return {key_of(path): number for number, path in enumerate(self.contents.paths)}

    def close(self) -> None:
        """The file is unmapped when nobody has its arrays any more."""


def check_rows(rows: np.ndarray, dim: int, k: int) -> None:
    """Refuse queries of another length than the index has."""
    if rows.ndim != 2 or rows.shape[1] != dim:
        raise ValueError(f"rows have shape {rows.shape}; give (queries, {dim}) as the index has.")
    if k < 1:
        raise Mistake(f"{k} neighbors were asked for; ask for 1 or more.")
