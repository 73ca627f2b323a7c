"""Search that does not look at every row, by faiss: quicker, and wrong now and then.

    hnsw   a graph of neighbors that a search walks along; quickest to search, slow to build, large
    ivf    rows in groups around centers, of which a search looks at the nearest few; quick to build

Rows are kept in float16. Faiss only proposes rows, a few more than are asked for; their cosines, and their order, are
those of exact search (`runtime/exact_cosines.py`). Which rows are proposed may differ between machines, since faiss
rounds as the processor does. How far a search looks is set when the index is built: it is doubled until TARGET of the
exact ten nearest are found (or others as near), for rows of the index moved a little; the share that was reached is
kept with the index and shown.

Memory: all rows once more, in memory and not mapped. Time to build: minutes for a million rows.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shadowmetric.errors import Mistake
from shadowmetric.ops.rows import Rows
from shadowmetric.ops.top_k import top_k
from shadowmetric.runtime.exact_cosines import exact_cosines, on_grid

KINDS = ("hnsw", "ivf")
LINKS, WIDTH_OF_BUILDING = 32, 80  # of hnsw
ROWS_FOR_A_CENTER = 64  # that k-means looks at
SAMPLE, NEAREST = 256, 10  # rows that quality is measured by, and how many neighbors of each
MOVED = 0.5  # length of what is added to a row, so that it is not its own nearest
TARGET = 0.95
ROUNDING = 1e-4  # of float16
AT_ONCE = 65536  # rows that are converted to float32 at once


def faiss_here() -> Any:
    """Return the module, or say how to get it."""
    try:
        import faiss
    except ImportError:
        raise Mistake("faiss is not installed; run `pip install 'shadowmetric[approximate]'`.") from None
    return faiss


def check_kind(kind: str) -> Any:
    """Refuse a kind that there is not; return faiss."""
    if kind not in KINDS:
        raise Mistake(f"--approximate is {kind!r}; choose one of {', '.join(KINDS)}, or none for exact search.")
    return faiss_here()


def build_faiss_index(rows: np.ndarray, kind: str, tell: Any = None) -> tuple[np.ndarray, str]:
    """Return what faiss needs to search the rows, as bytes, and a sentence on how good it is."""
    faiss = check_kind(kind)
    index = new_index(faiss, kind, rows)
    for start in range(0, len(rows), AT_ONCE):
        index.add(np.ascontiguousarray(rows[start : start + AT_ONCE], np.float32))
        if tell is not None:
            tell(f"building {kind}", min(1.0, (start + AT_ONCE) / len(rows)))
    reached = tune_search(index, kind, rows)
    words = f"{kind}: finds {100 * reached:.1f} % of the exact {NEAREST} nearest, measured on rows moved a little"
    return faiss.serialize_index(index), words


def new_index(faiss: Any, kind: str, rows: np.ndarray) -> Any:
    """Return an index without rows; the centers of ivf come from a sample."""
    dim, half, dot = rows.shape[1], faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
    if kind == "hnsw":
        index = faiss.IndexHNSWSQ(dim, half, LINKS, dot)
        index.hnsw.efConstruction = WIDTH_OF_BUILDING
        return index
    centers = centers_for(len(rows))
    index = faiss.IndexIVFScalarQuantizer(faiss.IndexFlatIP(dim), dim, centers, half, dot)
    index.by_residual = False  # else the product of a row would be that of its rounded distance from a center
    index.cp.min_points_per_centroid = 1  # it warns of small sets, which are fine
    index.train(sample(rows, ROWS_FOR_A_CENTER * centers))
    return index


def centers_for(rows: int) -> int:
    """Return how many groups ivf makes of so many rows."""
    return max(1, min(round(4 * math.sqrt(rows)), rows // ROWS_FOR_A_CENTER))


def tune_search(index: Any, kind: str, rows: np.ndarray) -> float:
    """Let a search look further until it finds enough; return the share that it finds."""
    queries = on_grid(augment_rows(sample(rows, SAMPLE)))
    k = min(NEAREST, len(rows))
    left, right = torch.from_numpy(queries).double(), torch.from_numpy(np.asarray(rows, np.float16))
    least = top_k(Rows(left), Rows(right, dtype=left.dtype), k).similarity[:, -1].numpy() - ROUNDING
    most = index.nlist if kind == "ivf" else 1024
    looked_at = 1 if kind == "ivf" else 16
    while True:
        if kind == "ivf":
            index.nprobe = min(looked_at, most)
        else:
            index.hnsw.efSearch = looked_at
        results = zip(queries, index.search(queries, k)[1], least, strict=True)
        near = sum((exact_cosines(rows[number[number >= 0]], query) >= bar).sum() for query, number, bar in results)
        reached = float(near / (k * len(queries)))
        if reached >= TARGET or looked_at >= most:
            return reached
        looked_at *= 2


def search_approximate(index: Any, rows: np.ndarray, k: int) -> np.ndarray:
    """Return proposed row numbers, (queries, k); whoever asks for more than it was tuned for makes it look further.

    A row number is -1 where nothing was found.
    """
    faiss = faiss_here()
    if hasattr(index, "hnsw"):
        further = faiss.SearchParametersHNSW(efSearch=max(index.hnsw.efSearch, 2 * k))
    else:
        further = faiss.SearchParametersIVF(nprobe=min(index.nlist, index.nprobe * -(-k // NEAREST)))
    search = getattr(index, "search_numpy", index.search)  # its own, where pytorch-metric-learning has put another
    return search(np.ascontiguousarray(rows, np.float32), k, params=further)[1]


def kind_of(words: str) -> str | None:
    """Return the kind of an approximate index by the words that were kept with it."""
    kind = words.partition(":")[0]
    return kind if kind in KINDS else None


def sample(rows: np.ndarray, count: int) -> np.ndarray:
    """Return some of the rows in float32, the same ones every time."""
    numbers = np.random.default_rng(0).permutation(len(rows))[:count]
    return np.asarray(rows[np.sort(numbers)], np.float32)


def augment_rows(rows: np.ndarray) -> np.ndarray:
    """Return rows of length 1 beside the given ones."""
    noise = np.random.default_rng(1).normal(size=rows.shape)
    copies = rows + MOVED * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    return (copies / np.linalg.norm(copies, axis=1, keepdims=True)).astype(np.float32)


def open_searcher(stored: np.ndarray, path: Path, rows: int, dim: int) -> Any:
    """Return what searches, from its bytes; it must be of so many rows."""
    faiss = faiss_here()
    try:
        index = faiss.deserialize_index(np.asarray(stored))
    except RuntimeError as error:
        reason = " ".join(str(error).split())[-200:]
        raise Mistake(
            f"{path} has an approximate part that faiss {faiss.__version__} cannot read ({reason})."
        ) from None
    if (index.ntotal, index.d) != (rows, dim):
        raise Mistake(f"{path} has an approximate part of other rows than its own; index the images again.")
    return index
