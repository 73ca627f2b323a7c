"""The front door: every measure of a set of embeddings, in one call and in fixed memory.

    scores = evaluate(embeddings, labels)                                                  # leave-one-out
    scores = evaluate(query, query_labels, gallery=gallery, gallery_labels=gallery_labels)   # two sets

Retrieval, voting and verification compare queries with the gallery; silhouette, clusters and collapse look at
the query set alone. Rows are compared by cosine. Each measure's file has its definition and its edge cases.

Memory: besides what is given, up to three times `scratch_bytes`, a few numbers for each row and query, and the rows
of a sample.
"""

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from shadowmetric.checks import check_batch, check_choice, check_scratch
from shadowmetric.evaluation.classification import class_report
from shadowmetric.evaluation.clusters import k_means
from shadowmetric.evaluation.collapse import collapse
from shadowmetric.evaluation.comparison import Sets, relevant_counts
from shadowmetric.evaluation.mutual_information import ami, nmi
from shadowmetric.evaluation.neighbours import vote
from shadowmetric.evaluation.progress import Bar, Report, Stages
from shadowmetric.evaluation.retrieval import RETRIEVAL, retrieval
from shadowmetric.evaluation.scores import Scores, Setting
from shadowmetric.evaluation.silhouette import DISTANCES, silhouette
from shadowmetric.evaluation.verification import verification

MEASURES = (*RETRIEVAL, "silhouette", "accuracy", "nmi", "verification", "collapse")
SCRATCH_BYTES = 128 * 2**20


def evaluate(
    embeddings: Any,
    labels: Any,
    *,
    gallery: Any = None,
    gallery_labels: Any = None,
    measures: Sequence[str] = MEASURES,
    recall_at: Sequence[int] = (1, 2, 4, 8),
    precision_at: Sequence[int] = (10,),
    neighbours: int = 5,
    silhouette_distance: str = "euclidean",
    queries: int | None = None,
    seed: int = 0,
    scratch_bytes: int = SCRATCH_BYTES,
    progress: bool | Report = True,
) -> Scores:
    """Return the scores of embeddings (queries, dim) with integer labels (queries,): tensors or numpy arrays.

    gallery: rows to search instead of the set itself; without it each query is left out of its own gallery.
    measures: which of MEASURES; "accuracy" brings macro-F1 and the class report, "nmi" brings AMI.
    neighbours: how many vote on a class. queries: measure a sample of so many, drawn with the seed; clusters and
    collapse are of the whole set all the same. progress: a bar on standard error after two seconds if that is a
    terminal, or a function that is told the stage and the share done.
    """
    wanted = _checked(measures, recall_at, precision_at, neighbours, silhouette_distance, queries, scratch_bytes)
    with torch.no_grad(), Bar() if progress is True else nullcontext(progress or None) as report:
        everything = _sets(embeddings, labels, gallery, gallery_labels)
        chosen = _sample(len(everything.labels), queries, seed).to(everything.labels.device)
        sets = everything if len(chosen) == len(everything.labels) else everything.some(chosen)
        itself = everything._replace(gallery=everything.query, gallery_labels=everything.labels, own=None)
        itself = itself if len(chosen) == len(everything.labels) else itself.some(chosen)
        setting = _setting(everything, sets, neighbours, silhouette_distance, seed)
        stages = Stages(expected_costs(setting, wanted), report)
        figures: dict[str, Any] = {}
        values: dict[str, Tensor] = {}
        if "retrieval" in stages.costs:
            tell = stages.stage("retrieval")
            values |= retrieval(sets, wanted, recall_at, precision_at, scratch_bytes=scratch_bytes, progress=tell)
            figures |= _retrieval_figures(values)
        if "silhouette" in wanted:
            tell = stages.stage("silhouette")
            values["silhouette"] = silhouette(
                itself, distance=silhouette_distance, scratch_bytes=scratch_bytes, progress=tell
            )
            figures["silhouette"] = float(values["silhouette"].mean())
        if "accuracy" in wanted:
            voted = vote(sets, neighbours, scratch_bytes=scratch_bytes, progress=stages.stage("accuracy"))
            by_class = class_report(sets.labels, voted.prediction, voted.known)
            values["accuracy"] = ((voted.prediction == sets.labels) & voted.known).double()
            figures |= {"accuracy": by_class.accuracy, "macro_f1": by_class.macro_f1}
            figures |= {"vote": voted, "report": by_class}
        if "nmi" in wanted:
            tell, classes = stages.stage("nmi"), len(torch.unique(everything.labels))
            clusters = k_means(everything.query, classes, seed=seed, scratch_bytes=scratch_bytes, progress=tell)
            figures |= {"nmi": nmi(everything.labels, clusters), "ami": ami(everything.labels, clusters)}
        if "verification" in wanted:
            figures["verification"] = _verified(sets, chosen, scratch_bytes, stages)
        if "collapse" in wanted:
            stages.stage("collapse")
            figures["collapse"] = collapse(everything.query, scratch_bytes=scratch_bytes)
    return Scores(
        setting=setting,
        **figures,
        per_query=values,
        labels=sets.labels,
        gallery_labels=sets.gallery_labels,
        query_rows=chosen,
    )


def _setting(everything: Sets, sets: Sets, neighbours: int, silhouette_distance: str, seed: int) -> Setting:
    return Setting(
        protocol="query-gallery" if everything.own is None else "leave-one-out",
        queries=len(sets.labels),
        of_queries=len(everything.labels),
        gallery=len(sets.gallery_labels),
        dim=sets.query.shape[1],
        classes=len(torch.unique(sets.labels)),
        lone_queries=int((relevant_counts(sets) == 0).sum()),
        neighbours=neighbours,
        silhouette_distance=silhouette_distance,
        seed=seed,
    )


def _retrieval_figures(values: dict[str, Tensor]) -> dict[str, Any]:
    """Return the means over the queries that are not lone, by the names of `Scores`."""
    figures: dict[str, Any] = {"recall_at": {}, "precision_at": {}}
    for name, value in values.items():
        kind, _, k = name.rpartition("_")
        if kind in figures:
            figures[kind][int(k)] = float(value.nanmean())
        else:
            figures[name] = float(value.nanmean())
    return figures


def _verified(sets: Sets, chosen: Tensor, scratch_bytes: int, stages: Stages):
    tell = stages.stage("verification")
    if sets.own is not None and len(chosen) == len(sets.gallery_labels):  # each two rows once
        return verification(sets.query, sets.labels, scratch_bytes=scratch_bytes, progress=tell)
    return verification(
        sets.query,
        sets.labels,
        gallery=sets.gallery,
        gallery_labels=sets.gallery_labels,
        own=sets.own,
        scratch_bytes=scratch_bytes,
        progress=tell,
    )


def _sets(embeddings: Any, labels: Any, gallery: Any, gallery_labels: Any) -> Sets:
    """Check what was given; return it as tensors, without a copy of any rows."""
    query, labels = _tensor(embeddings, "embeddings"), _tensor(labels, "labels")
    gallery = None if gallery is None else _tensor(gallery, "gallery")
    gallery_labels = None if gallery_labels is None else _tensor(gallery_labels, "gallery_labels")
    labels, gallery_labels = check_batch(query, labels, gallery, gallery_labels, other="gallery", debug=True)
    if gallery is None or gallery_labels is None:
        return Sets(query, labels, query, labels, torch.arange(len(labels), device=labels.device))
    return Sets(query, labels, gallery, gallery_labels, None)


def _tensor(given: Any, name: str) -> Tensor:
    """Return a tensor that shares its memory with a tensor, a numpy array or a memory-mapped one."""
    if isinstance(given, Tensor):
        return given.detach().cpu() if given.device.type == "mps" else given.detach()  # MPS has no float64
    if not hasattr(given, "__array__"):
        raise ValueError(f"{name} is a {type(given).__name__}; give a tensor or a numpy array.")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable.*")  # nothing here writes to it
        return torch.as_tensor(given)


def _sample(rows: int, queries: int | None, seed: int) -> Tensor:
    """Return the numbers of the queries, ascending."""
    if queries is None or queries >= rows:
        return torch.arange(rows)
    return torch.randperm(rows, generator=torch.Generator().manual_seed(seed))[:queries].sort().values


def _checked(
    measures: Sequence[str],
    recall_at: Sequence[int],
    precision_at: Sequence[int],
    neighbours: int,
    silhouette_distance: str,
    queries: int | None,
    scratch_bytes: int,
) -> tuple[str, ...]:
    """Return the measures, or refuse settings that make no sense before anything is measured."""
    for name in measures:
        check_choice(name, MEASURES, "a measure")
    check_choice(silhouette_distance, DISTANCES, "silhouette_distance")
    check_scratch(scratch_bytes)
    sizes = {"recall_at": recall_at, "precision_at": precision_at, "neighbours": [neighbours]}
    if queries is not None:
        sizes["queries"] = [queries]
    for name, counts in sizes.items():
        for count in counts:
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} is {count!r}; it must be a whole number above 0.")
    return tuple(measures)


def expected_costs(setting: Setting, measures: Sequence[str]) -> dict[str, float]:
    """Return about how long each stage takes, in nanoseconds of a core: what the bar's estimate rests on."""
    product = 0.05 * setting.dim
    pairs = float(setting.queries) * setting.gallery
    own_pairs = float(setting.queries) * setting.of_queries
    centres = float(setting.of_queries) * setting.classes
    costs = {
        "retrieval": pairs * (product + 4),
        "silhouette": own_pairs * (product + 3),
        "accuracy": pairs * (product + 1),
        "nmi": 20 * centres * (product + 1),
        "verification": pairs * (product + 4) / (2 if setting.protocol == "leave-one-out" else 1),
        "collapse": setting.of_queries * setting.dim * product,
    }
    wanted = {"retrieval" if name in RETRIEVAL else name for name in measures}
    return {name: cost for name, cost in costs.items() if name in wanted}
