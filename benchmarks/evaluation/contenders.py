"""Who evaluates: this library, or faiss and scikit-learn as an engineer who has both would use them.

    ours    evaluate: Recall@1,2,4,8, MAP@R and silhouette in one call, in fixed memory
    peers   faiss's exact index on unit rows (IndexFlatIP) with as many threads as torch has, asked for the max(8, R)
            nearest and the query itself, in blocks of queries whose answers take RESULT_BYTES at most; Recall@K and
            MAP@R from the labels of what it found, in numpy; scikit-learn's silhouette_score on the float32 unit
            rows. (It hands n_jobs on to the distances, which made it slower: tried at 3,000 rows, two cores.)

Both get the rows as a network leaves them and make them unit rows on the clock. Ties are broken differently (ours:
other classes first; faiss: by row), and faiss compares float32 products where ours settles close calls exactly, so
two items within 1e-7 of each other may change places: that moves a recall by 1 / queries at most, each time.

`note(stage)` is told when a stage begins. A contender returns its figures by name.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from benchmarks.evaluation.plan import RECALL_AT, EvaluationJob
from shadowmetric.types import Embeddings, Labels

if TYPE_CHECKING:
    from numpy import ndarray

RESULT_BYTES = 256 * 2**20
BYTES_PER_NEIGHBOR = 12  # a row number of 8 bytes and a similarity of 4
MEASURES_OF_OURS = {"retrieval": ("recall_at", "map_at_r"), "silhouette": ("silhouette",)}

Note = Callable[[str, float], None]
Evaluator = Callable[[EvaluationJob, Tensor, Tensor, Note], dict[str, float]]


def ours(job: EvaluationJob, embeddings: Embeddings, labels: Labels, note: Note) -> dict[str, float]:
    """Evaluate with this library."""
    from shadowmetric.evaluation import evaluate

    measures = [measure for stage in job.stages for measure in MEASURES_OF_OURS[stage]]
    scores = evaluate(embeddings, labels, measures=measures, recall_at=RECALL_AT, progress=note)
    sampled = {name: float(scores.per_query[name][: job.searched].nanmean()) for name in scores.figures()}
    return scores.figures() | {name: value for name, value in sampled.items() if name != "silhouette"}


def peers(job: EvaluationJob, embeddings: Embeddings, labels: Labels, note: Note) -> dict[str, float]:
    """Evaluate with faiss and scikit-learn."""
    figures: dict[str, float] = {}
    unit, known = nn.functional.normalize(embeddings).numpy(), labels.numpy()
    if "retrieval" in job.stages:
        note("retrieval", 0.0)
        figures |= _search_figures(unit, known, job.searched)
    if "silhouette" in job.stages:
        from sklearn.metrics import silhouette_score

        note("silhouette", 0.0)
        figures["silhouette"] = float(silhouette_score(unit, known))
    return figures


def _search_figures(unit: "ndarray", labels: "ndarray", queries: int) -> dict[str, float]:
    """Return Recall@K and MAP@R of the first so many rows; lone ones have nothing right and are not counted."""
    import numpy as np

    _, place, size = np.unique(labels, return_inverse=True, return_counts=True)
    place, relevant = place.astype(np.int32), size[place] - 1  # class number and R of each row
    count = min(max(*RECALL_AT, int(relevant.max())) + 1, len(unit))
    recalls, precisions = np.zeros(len(RECALL_AT)), 0.0
    for rows, neighbors in _neighbors(unit, queries, count):
        right = _without_itself(place[neighbors] == place[rows, None], neighbors == rows[:, None])
        recalls += [right[:, :k].any(1).sum() for k in RECALL_AT]
        precisions += _mean_precisions(right, relevant[rows]).sum()
    searched = (relevant[:queries] > 0).sum()
    named = {f"recall_at_{k}": float(right / searched) for k, right in zip(RECALL_AT, recalls, strict=True)}
    return named | {"map_at_r": float(precisions / searched)}


def _neighbors(unit: "ndarray", queries: int, count: int) -> Iterator[tuple["ndarray", "ndarray"]]:
    """Yield the row numbers of a block of queries, and of the rows nearest to each, best first: (queries, count).

    The second is one buffer, used again for the next block.
    """
    import faiss
    import numpy as np

    faiss.omp_set_num_threads(torch.get_num_threads())
    index = faiss.IndexFlatIP(unit.shape[1])
    index.add(unit)  # pyright: ignore[reportCallIssue]
    block = min(max(RESULT_BYTES // (BYTES_PER_NEIGHBOR * count), 1), queries)
    similarity, neighbors = np.empty((block, count), np.float32), np.empty((block, count), np.int64)
    for start in range(0, queries, block):
        rows = np.arange(start, min(start + block, queries))
        here = slice(0, len(rows))
        index.search(unit[rows[0] : rows[-1] + 1], count, D=similarity[here], I=neighbors[here])  # pyright: ignore[reportCallIssue]
        yield rows, neighbors[here]


def _without_itself(right: "ndarray", itself: "ndarray") -> "ndarray":
    """Return the columns without the query; where so many duplicates crowd it out, without the last."""
    itself[~itself.any(1), -1] = True
    return right[~itself].reshape(len(right), -1)


def _mean_precisions(right: "ndarray", relevant: "ndarray") -> "ndarray":
    """Return 1/R * the sum, over the ranks up to R that are right, of the precision there; 0 for a lone query."""
    import numpy as np

    rank = np.arange(1, right.shape[1] + 1)
    right = right & (rank <= relevant[:, None])
    hits = right.cumsum(1, dtype=np.int32)
    return np.multiply(hits, right, out=hits) @ (1 / rank) / np.maximum(relevant, 1)


CONTENDERS: dict[str, Evaluator] = {"ours": ours, "peers": peers}

PACKAGES = {  # what a contender is made of, by stage
    "ours": {"retrieval": "shadowmetric", "silhouette": "shadowmetric"},
    "peers": {"retrieval": "faiss-cpu", "silhouette": "scikit-learn"},
}
