"""The front door: every measure of a set of embeddings, in one call and in fixed memory.

```python
import torch
from shadowmetric import evaluate

query, gallery = torch.randn(40, 8), torch.randn(60, 8)
labels, gallery_labels = torch.arange(40) // 5, torch.arange(60) // 5

scores = evaluate(query, labels)  # leave-one-out
scores = evaluate(query, labels, gallery=gallery, gallery_labels=gallery_labels)  # two sets
scores = evaluate(query, labels, shared=True)  # by all ranks of torch.distributed, each a part of it
```

Retrieval, voting and verification compare queries with the gallery; silhouette, clusters and collapse look at
the query set alone. Rows are compared by cosine. Each measure's file has its definition and its edge cases.

Memory: besides what is given, up to three times `scratch_bytes`, a few numbers for each row and query, and the rows
of a sample.
"""

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from shadowmetric.checks import check_batch, check_choice, check_scratch
from shadowmetric.evaluation.collapse import collapse_costs
from shadowmetric.evaluation.comparison import Sets, relevant_counts
from shadowmetric.evaluation.measuring import STAGES, Choices, Task
from shadowmetric.evaluation.relation_retrieval import class_numbers, relation_counts
from shadowmetric.evaluation.retrieval import GRADED, RETRIEVAL
from shadowmetric.evaluation.scores import Scores, Setting
from shadowmetric.evaluation.sharing import agree_on, checksum, ranks_of
from shadowmetric.evaluation.silhouette import DISTANCES
from shadowmetric.progress import Bar, Report, Stages
from shadowmetric.types import AnyLabels, Relation

MEASURES = (*RETRIEVAL, "silhouette", "accuracy", "nmi", "verification", "collapse")
OF_RELATIONS = (*RETRIEVAL, GRADED, "collapse")
SCRATCH_BYTES = 128 * 2**20


def evaluate(
    embeddings: Any,
    labels: Any,
    *,
    gallery: Any = None,
    gallery_labels: Any = None,
    measures: Sequence[str] | None = None,
    recall_at: Sequence[int] = (1, 2, 4, 8),
    precision_at: Sequence[int] = (10,),
    ndcg_at: Sequence[int] = (10,),
    neighbors: int = 5,
    silhouette_distance: str = "euclidean",
    queries: int | None = None,
    seed: int = 0,
    scratch_bytes: int = SCRATCH_BYTES,
    progress: bool | Report = True,
    shared: bool = False,
) -> Scores:
    """Return the scores of embeddings (queries, dim) with integer labels (queries,): tensors or numpy arrays.

    labels, gallery_labels: or a relation, such as sm.LabelSets(bits), which says what is relevant, and how much.

    gallery: rows to search instead of the set itself; without it each query is left out of its own gallery.
    measures: which of MEASURES, and "ndcg_at", NDCG@K by grades; by default MEASURES, and of a relation those that
    need no classes: retrieval, NDCG, collapse. "precision_at" brings the recall of information retrieval at the same
    K, "accuracy" macro-F1 and the class report, "nmi" AMI.
    neighbors: how many vote on a class. queries: measure a sample of so many, drawn with the seed; clusters and
    collapse are of the whole set all the same. progress: a bar on standard error after two seconds if that is a
    terminal, or a function that is told the stage and the share done.

    shared: every rank of torch.distributed gives the same, measures its part of it, and gets the same scores.
    Queries, the pairs of verification and the rows of k-means are divided; collapse is small, and rank 0's alone.
    Squared and cosine silhouettes may differ from those of one process as they do with the scratch, in the last
    digits; all else is equal. With one process nothing changes, and nothing is sent.
    """
    if measures is None:
        measures = OF_RELATIONS if isinstance(labels, Relation) else MEASURES
    choices = Choices(
        tuple(measures),
        tuple(recall_at),
        tuple(precision_at),
        neighbors,
        silhouette_distance,
        queries,
        seed,
        tuple(ndcg_at) if GRADED in measures else (),
    )
    with torch.no_grad(), _reporter(progress, shared) as report:
        task = agree_on(
            lambda: _task(choices, embeddings, labels, gallery, gallery_labels, scratch_bytes, shared), _words, shared
        )
        setting = _setting(task)
        stages = Stages(expected_costs(setting, choices.measures), report)
        results = [STAGES[name](task, stages.stage(name)) for name in stages.costs]
    return Scores(
        setting=setting,
        **{name: figure for stage in results for name, figure in stage.figures.items()},
        per_query={name: value for stage in results for name, value in stage.values.items()},
        **dict(zip(("labels", "gallery_labels"), class_numbers(task.sets), strict=True)),
        query_rows=task.chosen,
    )


def _reporter(progress: bool | Report, shared: bool) -> AbstractContextManager[Report | None]:
    """Return who is told the progress; one bar is enough for all ranks."""
    if progress is True:
        return Bar() if ranks_of(shared).rank == 0 else nullcontext()
    return nullcontext(progress or None)


def _task(
    choices: Choices,
    embeddings: Any,
    labels: Any,
    gallery: Any,
    gallery_labels: Any,
    scratch_bytes: int,
    shared: bool,
) -> Task:
    """Check everything that was given, and choose the queries."""
    check_scratch(scratch_bytes)
    _check(choices, OF_RELATIONS if isinstance(labels, Relation) else (*MEASURES, GRADED))
    sets = everything = _sets(embeddings, labels, gallery, gallery_labels)
    itself = everything._replace(gallery=everything.query, gallery_labels=everything.labels, own=None)
    query_rows = _sample(len(everything.labels), choices.queries, choices.seed).to(everything.labels.device)
    if len(query_rows) < len(everything.labels):
        sets, itself = everything.some(query_rows), itself.some(query_rows)
    return Task(choices, everything, query_rows, sets, itself, scratch_bytes, shared)


def _words(task: Task) -> dict[str, str]:
    """Return what must be the same on all ranks; of the rows only their shape, which costs nothing to compare."""
    everything = task.everything
    words = {
        "embeddings": f"shape {tuple(everything.query.shape)}",
        "gallery": f"shape {tuple(everything.gallery.shape)}" if everything.own is None else "none",
        "labels": checksum(_known(everything.labels)),
        "gallery_labels": checksum(_known(everything.gallery_labels)),
    }
    return words | {name: repr(value) for name, value in task.choices._asdict().items()}


def _known(labels: AnyLabels) -> Tensor:
    """Return the labels, or what a relation knows of each row."""
    return labels.rows if isinstance(labels, Relation) else labels


def _setting(task: Task) -> Setting:
    sets = task.sets
    of_relation = isinstance(sets.labels, Relation)
    return Setting(
        protocol="query-gallery" if sets.own is None else "leave-one-out",
        queries=len(sets.labels),
        of_queries=len(task.everything.labels),
        gallery=len(sets.gallery_labels),
        dim=sets.query.shape[1],
        classes=len(torch.unique(_known(sets.labels), dim=0 if of_relation else None)),
        lone_queries=int(((relation_counts if of_relation else relevant_counts)(sets) == 0).sum()),
        neighbors=task.choices.neighbors,
        silhouette_distance=task.choices.silhouette_distance,
        seed=task.choices.seed,
    )


def _sets(embeddings: Any, labels: Any, gallery: Any, gallery_labels: Any) -> Sets:
    """Check what was given; return it as tensors, without a copy of any rows."""
    query, labels = _tensor(embeddings, "embeddings"), _any_labels(labels, "labels")
    gallery = None if gallery is None else _tensor(gallery, "gallery")
    gallery_labels = None if gallery_labels is None else _any_labels(gallery_labels, "gallery_labels")
    labels, gallery_labels = check_batch(query, labels, gallery, gallery_labels, other="gallery", debug=True)
    if gallery is None or gallery_labels is None:
        return Sets(query, labels, query, labels, torch.arange(len(labels), device=labels.device))
    return Sets(query, labels, gallery, gallery_labels, None)


def _any_labels(labels: Any, name: str) -> AnyLabels:
    """Return labels as a tensor, and a relation as it is."""
    return labels if isinstance(labels, Relation) else _tensor(labels, name)


def _tensor(array: Any, name: str) -> Tensor:
    """Return a tensor that shares its memory with a tensor, a numpy array or a memory-mapped one."""
    if isinstance(array, Tensor):
        return array.detach().cpu() if array.device.type == "mps" else array.detach()  # MPS has no float64
    if not hasattr(array, "__array__"):
        raise ValueError(f"{name} is a {type(array).__name__}; give a tensor or a numpy array.")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable.*")  # nothing here writes to it
        return torch.as_tensor(array)


def _sample(rows: int, queries: int | None, seed: int) -> Tensor:
    """Return the numbers of the queries, ascending."""
    if queries is None or queries >= rows:
        return torch.arange(rows)
    return torch.randperm(rows, generator=torch.Generator().manual_seed(seed))[:queries].sort().values


def _check(choices: Choices, allowed: tuple[str, ...]) -> None:
    """Refuse choices that make no sense before anything is measured."""
    for name in choices.measures:
        if name in MEASURES and name not in allowed:
            raise ValueError(
                f"{name} needs one label for each row, and labels is a relation; leave it out of measures."
            )
        check_choice(name, allowed, "a measure")
    check_choice(choices.silhouette_distance, DISTANCES, "silhouette_distance")
    sizes = {
        "recall_at": choices.recall_at,
        "precision_at": choices.precision_at,
        "ndcg_at": choices.ndcg_at,
        "neighbors": [choices.neighbors],
        "queries": [] if choices.queries is None else [choices.queries],
    }
    for name, counts in sizes.items():
        for count in counts:
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} is {count!r}; it must be a whole number above 0.")


def expected_costs(setting: Setting, measures: Sequence[str]) -> dict[str, float]:
    """Return about how long each stage takes, in nanoseconds of a core: what the bar's estimate rests on."""
    product = 0.05 * setting.dim
    pairs = float(setting.queries) * setting.gallery
    own_pairs = float(setting.queries) * setting.of_queries
    centers = float(setting.of_queries) * setting.classes
    costs = {
        "retrieval": pairs * (product + 4),
        "silhouette": own_pairs * (product + 3),
        "accuracy": pairs * (product + 1),
        "nmi": 20 * centers * (product + 1),
        "verification": pairs * (product + 4) / (2 if setting.protocol == "leave-one-out" else 1),
        "collapse": sum(collapse_costs(setting.of_queries, setting.dim)),
    }
    wanted = {"retrieval" if name in (*RETRIEVAL, GRADED) else name for name in measures}
    return {name: cost for name, cost in costs.items() if name in wanted}
