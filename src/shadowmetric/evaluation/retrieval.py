"""Every retrieval measure of every query, from one pass over the similarities (two if MRR asks for far places).

Which places of the ranked gallery are hits (`hits`) is found block by block; each measure is a function of that.
"""

from collections.abc import Collection, Sequence

from torch import Tensor

from shadowmetric.evaluation.comparison import Sets, compare
from shadowmetric.evaluation.hits import Hits, iterate_hits
from shadowmetric.evaluation.ir_recall import ir_recall_at_k
from shadowmetric.evaluation.map_at_r import map_at_r
from shadowmetric.evaluation.precision import precision_at_k
from shadowmetric.evaluation.r_precision import r_precision
from shadowmetric.evaluation.recall import recall_at_k
from shadowmetric.evaluation.reciprocal_rank import first_hit, reciprocal_rank
from shadowmetric.evaluation.relation_retrieval import relation_retrieval
from shadowmetric.ops.similarity_blocks import Progress
from shadowmetric.types import Relation

GRADED = "ndcg_at"
RETRIEVAL = ("recall_at", "precision_at", "r_precision", "map_at_r", "reciprocal_rank")
FIRST_PASS = 0.75  # share of the work, if there is a second one


def retrieval(
    sets: Sets,
    measures: Collection[str],
    recall_at: Sequence[int],
    precision_at: Sequence[int],
    *,
    scratch_bytes: int,
    progress: Progress,
    ndcg_at: Sequence[int] = (),
) -> dict[str, Tensor]:
    """Return the values of each query by name (recall_at_1, map_at_r, ...): (queries,) float64, NaN for lone ones."""
    ndcg_at = ndcg_at if GRADED in measures else ()
    if isinstance(sets.labels, Relation):
        return _by_relation(sets, measures, recall_at, precision_at, ndcg_at, scratch_bytes, progress)
    if not ndcg_at:
        return _by_class(sets, measures, recall_at, precision_at, scratch_bytes, progress)
    wanted = [name for name in measures if name != GRADED]
    values, share = {}, 0.5 if wanted else 0.0
    if wanted:
        values = _by_class(sets, wanted, recall_at, precision_at, scratch_bytes, lambda done: progress(share * done))
    one_level = sets.as_relation()
    return values | _by_relation(
        one_level, (), (), (), ndcg_at, scratch_bytes, lambda done: progress(share + (1 - share) * done)
    )


def _by_relation(
    sets: Sets,
    measures: Collection[str],
    recall_at: Sequence[int],
    precision_at: Sequence[int],
    ndcg_at: Sequence[int],
    scratch_bytes: int,
    progress: Progress,
) -> dict[str, Tensor]:
    """Return the values where a relation says what is relevant."""
    of_hits = [name for name in measures if name in RETRIEVAL and name != "reciprocal_rank"]
    return relation_retrieval(
        sets,
        (lambda hits: _values(hits, of_hits, recall_at, precision_at)) if of_hits else None,
        limit=_limit(measures, recall_at, precision_at),
        ndcg_at=ndcg_at,
        reciprocal_rank="reciprocal_rank" in measures,
        scratch_bytes=scratch_bytes,
        progress=progress,
    )


def _limit(measures: Collection[str], recall_at: Sequence[int], precision_at: Sequence[int]) -> int:
    """Return the most places that a K asks for."""
    ks = {"recall_at": recall_at, "precision_at": precision_at}
    return max([1, *(k for name in ks if name in measures for k in ks[name])])


def _by_class(
    sets: Sets,
    measures: Collection[str],
    recall_at: Sequence[int],
    precision_at: Sequence[int],
    scratch_bytes: int,
    progress: Progress,
) -> dict[str, Tensor]:
    """Return the values where items of the query's class are relevant."""
    comparison = compare(sets, scratch_bytes)
    limit = _limit(measures, recall_at, precision_at)
    far = "reciprocal_rank" in measures
    share = FIRST_PASS if far else 1.0
    scores: dict[str, Tensor] = {}
    for rows, hits in iterate_hits(
        comparison, limit, closest=far, scratch_bytes=scratch_bytes, progress=lambda done: progress(share * done)
    ):
        for name, values in _values(hits, measures, recall_at, precision_at).items():
            if name not in scores:  # once: small tensors that outlive a block would pin its memory in the heap
                scores[name] = values.new_empty(len(sets.labels))
            scores[name][comparison.order[rows]] = values
    if far:
        first, closest = scores.pop("first"), scores.pop("closest")
        scores["reciprocal_rank"] = reciprocal_rank(
            sets,
            first,
            closest,
            scratch_bytes=scratch_bytes,
            progress=lambda done: progress(share + (1 - share) * done),
        )
    return scores


def _values(
    hits: Hits, measures: Collection[str], recall_at: Sequence[int], precision_at: Sequence[int]
) -> dict[str, Tensor]:
    values: dict[str, Tensor] = {}
    if "recall_at" in measures:
        values |= {f"recall_at_{k}": recall_at_k(hits, k) for k in recall_at}
    if "precision_at" in measures:
        values |= {f"precision_at_{k}": precision_at_k(hits, k) for k in precision_at}
        values |= {f"ir_recall_at_{k}": ir_recall_at_k(hits, k) for k in precision_at}
    if "r_precision" in measures:
        values["r_precision"] = r_precision(hits)
    if "map_at_r" in measures:
        values["map_at_r"] = map_at_r(hits)
    if "reciprocal_rank" in measures:
        values |= {"first": first_hit(hits), "closest": hits.closest}
    return values
