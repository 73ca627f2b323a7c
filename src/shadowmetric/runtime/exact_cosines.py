"""Cosines of stored rows that no machine rounds differently, and the ranking that follows from them.

A product in float32 rounds as it sums, in an order that depends on the processor, the library and the place of a row
in its block: two copies of an image may get different cosines, and which comes first becomes chance. So what is
quick, be it a product in float32, faiss or a server, only proposes rows. Those are measured again here:

    stored rows are float16: multiples of 2^-24, entries of at most 1
    a query is rounded to multiples of 2^-24, which moves a cosine by about 2e-8
    products of the two are multiples of 2^-48, sums of them stay below 2: float64 holds each sum exactly, in any order

and ranked by cosine, equal ones by their number or path. The k best are among the proposed if those that were not
proposed are out of reach: with any order of sums a product of unit rows in float32 is wrong by at most
dim x 2^-24 / (1 - dim x 2^-24), so a row whose product is more than twice that below the k-th best is none of the best.

Memory: a part of the proposed rows in float64. Time: a few microseconds for each, beside milliseconds of proposing.
"""

import numpy as np

GRID = 2.0**24
LONGEST = 1.001  # what float16 makes of a row of length 1
SPARE = 8  # rows that are proposed beyond the k best
NUMBERS_AT_ONCE = 2**20  # in float64: 8 MiB


def on_grid(rows: np.ndarray) -> np.ndarray:
    """Return rows rounded to multiples of 2^-24; float32 holds them exactly."""
    return (np.round(np.asarray(rows, np.float64) * GRID) / GRID).astype(np.float32)


def reach(queries: np.ndarray) -> np.ndarray:
    """Return how far below the k-th best product of each query one may be whose exact product is not below."""
    wrong = queries.shape[1] / GRID
    if wrong >= 0.5:
        return np.full(len(queries), np.inf)
    lengths = np.linalg.norm(queries.astype(np.float64), axis=1)
    return 2.001 * LONGEST * wrong / (1 - wrong) * lengths


def exact_cosines(stored: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Return the product of each row, float16 or on the grid, with a query on the grid: (rows,) float64."""
    cosines, query = np.empty(len(stored)), query.astype(np.float64)
    some = max(1, NUMBERS_AT_ONCE // len(query))
    for start in range(0, len(stored), some):
        np.matmul(stored[start : start + some].astype(np.float64), query, out=cosines[start : start + some])
    return cosines


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    """Return the exact cosine of two unit rows rounded to the grid, -1 to 1."""
    product = exact_cosines(on_grid(first)[None], on_grid(second))[0]
    return float(np.clip(product, -1, 1))  # rounding makes rows longer than 1


def rank_cosines(cosines: np.ndarray, numbers: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k largest cosines and their numbers, best first, equal ones by their number."""
    order = np.lexsort((numbers, -cosines))[:k]
    return cosines[order], numbers[order]


def is_settled(proposed: np.ndarray, k: int, least: np.ndarray | float) -> np.ndarray:
    """Return for each query whether the rows beyond the proposed are out of reach of its k best.

    proposed: (queries, more than k) products, best first; least: what `reach` says.
    """
    return proposed[:, -1] < proposed[:, k - 1].astype(np.float64) - least
