"""How long a search takes: our index file, exact and approximate, beside plain faiss with float32 rows in memory.

Rows are made: so many classes, each a direction with noise around it, as embeddings are. Queries are made the same
way and are no rows. What is timed is the search, not the names of what it found. Every contender answers the same
queries, one at a time and a hundred at once, in turn, so that a noisy minute hits all of them. `found` is the share of
the ten exact neighbors (or others as near) that it finds.

Memory: the rows in float32, and what each contender keeps.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from shadowmetric.app.serving.galleries import approximate
from shadowmetric.app.serving.galleries.file_gallery import FileGallery
from shadowmetric.progress import Report
from shadowmetric.runtime.entries import About
from shadowmetric.runtime.images import Shape
from shadowmetric.runtime.index_file import Contents, write_index

K = 10
TOGETHER = 100  # queries at once
NOISE = 1.0  # length of what is added to a class's direction
Search = Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]


@dataclass
class Contender:
    """Something that searches, and what was measured of it."""

    name: str
    search: Search
    build_seconds: float
    bytes: int
    alone: list[float] = field(default_factory=list)  # seconds for a query
    together: list[float] = field(default_factory=list)  # seconds for TOGETHER queries
    found: float = 0.0

    def milliseconds(self, share: float = 0.5) -> float:
        """Return the time of one query: the median, or another quantile."""
        return 1e3 * statistics.quantiles(self.alone, n=100, method="inclusive")[round(100 * share) - 1]

    def milliseconds_together(self) -> float:
        """Return the time of a query among many at once, the median."""
        return 1e3 * statistics.median(self.together) / TOGETHER


def measure_search(
    rows: int, dim: int, classes: int, queries: int, kinds: Sequence[str], tell: Report | None = None
) -> list[Contender]:
    """Return every contender with its times."""
    say = tell or (lambda *_: None)
    faiss = approximate.faiss_here()
    for kind in kinds:
        approximate.check_kind(kind)
    gallery, query_rows = make_rows(rows, dim, classes, queries)
    with tempfile.TemporaryDirectory() as folder:
        contenders = []
        for kind in (None, *kinds):
            say(f"building {kind or 'exact'}", 0.0)
            contenders += [ours(gallery, kind, Path(folder)), plain(faiss, gallery, kind)]
        exact = contenders[1].search(query_rows, K)[0]
        for one in contenders:
            one.found = float((one.search(query_rows, K)[0] >= exact[:, -1:] - approximate.ROUNDING * 10).mean())
        for number in range(queries):
            say("searching", number / queries)
            for one in contenders:
                one.alone.append(seconds(one.search, query_rows[number : number + 1]))
                if number % 20 == 0:
                    one.together.append(seconds(one.search, query_rows[:TOGETHER]))
    return contenders


def make_rows(rows: int, dim: int, classes: int, queries: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows in float16 and queries in float32, all of length 1."""
    draw = np.random.default_rng(0)
    centers = draw.normal(size=(classes, dim)).astype(np.float32)
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)

    def some(count: int) -> np.ndarray:
        sample = centers[draw.integers(0, classes, count)]
        sample += draw.normal(scale=NOISE / np.sqrt(dim), size=(count, dim)).astype(np.float32)
        return sample / np.linalg.norm(sample, axis=1, keepdims=True)

    return np.concatenate([some(min(65536, rows - start)).astype(np.float16) for start in range(0, rows, 65536)]), some(
        max(queries, TOGETHER)
    )


def ours(gallery: np.ndarray, kind: str | None, folder: Path) -> Contender:
    """Return our index, written to a file and opened again."""
    begin = time.perf_counter()
    stored, words = (None, "") if kind is None else approximate.build_faiss_index(gallery, kind)
    file = folder / f"{kind}.shadowmx"
    count = len(gallery)
    contents = Contents(
        gallery,
        np.full(count, -1, np.int32),
        np.zeros((count, 32), np.uint8),
        [f"{number:08d}" for number in range(count)],
        (),
        stored,
        words,
    )
    write_index(file, About(gallery.shape[1], "made", Shape(8, 8, 1), (), ""), contents)
    opened = FileGallery(file)
    search = lambda asked, k: opened.find(asked, k, None)  # noqa: E731
    return Contender(f"shadowmetric {kind or 'exact'}", search, time.perf_counter() - begin, file.stat().st_size)


def plain(faiss: Any, gallery: np.ndarray, kind: str | None) -> Contender:
    """Return faiss as people use it: float32 rows, in memory, looking as far as ours does."""
    begin = time.perf_counter()
    rows, dim = gallery.astype(np.float32), gallery.shape[1]
    if kind is None:
        index = faiss.IndexFlatIP(dim)
    elif kind == "hnsw":
        index = faiss.IndexHNSWFlat(dim, approximate.LINKS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = approximate.WIDTH_OF_BUILDING
    else:
        centers = approximate.centers_for(len(rows))
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dim), dim, centers, faiss.METRIC_INNER_PRODUCT)
        index.cp.min_points_per_centroid = 1
        index.train(approximate.sample(gallery, approximate.ROWS_FOR_A_CENTER * centers))
    index.add(rows)
    if kind is not None:
        approximate.tune_search(index, kind, gallery)
    size = rows.nbytes if kind is None else len(faiss.serialize_index(index))
    return Contender(f"faiss {kind or 'flat'}", index.search, time.perf_counter() - begin, size)


def seconds(search: Search, query_rows: np.ndarray) -> float:
    """Return how long an answer takes."""
    begin = time.perf_counter()
    search(query_rows, K)
    return time.perf_counter() - begin
