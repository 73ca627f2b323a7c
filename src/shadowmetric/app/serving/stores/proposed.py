"""What a vector store proposes, measured again: its arithmetic is not ours, and the ranking must be that of files.

A store is asked for a few rows more than k. If the last of them is not so far below the k-th that rounding cannot have
put it there, it is asked for four times as many, and so on, until MOST more than k were looked at. Cosines and order
of what it proposed are then those of `runtime/exact_cosines.py`, equal ones by path. Where more than MOST rows lie as
near to the k-th as that, the store's own arithmetic decides which of them are looked at.

Memory: the proposed rows.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from shadowmetric.runtime.entries import Entry, Hit
from shadowmetric.runtime.exact_cosines import LONGEST, SPARE, exact_cosines, on_grid, reach

MOST = 4096  # rows beyond k
MOST_ASKED = 2**31  # no store has as many
HALF = 2.0**-11  # what float16 rounds by
LANES = 32  # sums that run side by side where a server sums in float16


class Proposed(NamedTuple):
    """A row that a store found."""

    entry: Entry | None  # None: it is not ours
    row: Sequence[float] | np.ndarray
    product: float  # by the store


Ask = Callable[[np.ndarray, int], list[list[Proposed]]]  # some queries and a limit -> what each finds, best first


def reach_of_halves(queries: np.ndarray) -> np.ndarray:
    """Return `reach` for a server that rounds query and sums to float16, as Qdrant does on some processors.

    A sum of dim / 32 terms is made in float16, each term rounded and of a rounded query; such sums join in float32.
    """
    lengths = np.linalg.norm(queries.astype(np.float64), axis=1)
    return reach(queries) + 2.001 * LONGEST * lengths * ((queries.shape[1] / LANES + 3) * HALF)


def no_reach(queries: np.ndarray) -> np.ndarray:
    """Return what makes do with the first answer: an approximate index finds what it finds."""
    return np.full(len(queries), -np.inf)


def search_store(rows: np.ndarray, k: int, reach_of: Callable[[np.ndarray], np.ndarray], ask: Ask) -> list[list[Hit]]:
    """Return the k most similar images of each row, best first, equally similar ones by path."""
    queries, k = on_grid(rows), min(k, MOST_ASKED)
    near, hits = reach_of(queries).tolist(), [[] for _ in queries]
    waiting, limit = list(range(len(queries))), k + SPARE
    while waiting:
        answers = dict(zip(waiting, ask(queries[waiting], limit), strict=True))
        waiting = [place for place in waiting if not enough(answers[place], limit, k, near[place])]
        for place in answers.keys() - waiting:
            hits[place] = best_hits(queries[place], answers[place], k)
        limit *= 4
    return hits


def enough(answer: list[Proposed], limit: int, k: int, near: float) -> bool:
    """Return whether the k best are among what was found with this limit."""
    if len(answer) < limit:  # it is all there is
        return True
    ours = [one.product for one in answer if one.entry]
    return len(ours) >= k and (limit >= k + MOST or answer[-1].product < ours[k - 1] - near)


def best_hits(query: np.ndarray, answer: list[Proposed], k: int) -> list[Hit]:
    """Return the k best of the proposed images for a query on the grid, best first, equally similar ones by path."""
    ours = [(one.entry, one.row) for one in answer if one.entry]
    if not ours:
        return []
    cosines = exact_cosines(np.array([row for _, row in ours], np.float16), query).tolist()
    hits = [Hit(entry, cosine) for (entry, _), cosine in zip(ours, cosines, strict=True)]
    best = sorted(hits, key=lambda hit: (-hit.similarity, hit.entry.path))[:k]
    return [Hit(hit.entry, min(hit.similarity, 1.0)) for hit in best]  # rounding makes rows longer than 1
