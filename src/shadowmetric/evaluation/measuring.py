"""The stages of an evaluation: what each finds out about one task, alone or with the other ranks.

    retrieval, silhouette, accuracy   a value for each query: a rank measures its part of the queries
    nmi                               a rank finds the nearest centers of its part of the rows, in every iteration
    verification                      a rank counts its part of the pairs, and the counts are summed
    collapse                          rank 0 alone: it takes no more than a few times one product of rows, and its sums
                                      in parts would round differently

Rows of a part are views, so sharing copies none.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from shadowmetric.evaluation.classification import class_report
from shadowmetric.evaluation.clusters import k_means
from shadowmetric.evaluation.collapse import collapse
from shadowmetric.evaluation.comparison import Sets
from shadowmetric.evaluation.mutual_information import ami, nmi
from shadowmetric.evaluation.neighbors import Vote, vote
from shadowmetric.evaluation.retrieval import GRADED, retrieval
from shadowmetric.evaluation.sharing import Part, broadcast_from_rank0
from shadowmetric.evaluation.silhouette import silhouette
from shadowmetric.evaluation.verification import verification
from shadowmetric.ops.similarity_blocks import Progress


class Choices(NamedTuple):
    """What is to be measured, and how."""

    measures: tuple[str, ...]
    recall_at: tuple[int, ...]
    precision_at: tuple[int, ...]
    neighbors: int
    silhouette_distance: str
    queries: int | None
    seed: int
    ndcg_at: tuple[int, ...] = ()


class Task(NamedTuple):
    """What is measured: checked, the queries chosen."""

    choices: Choices
    everything: Sets
    chosen: Tensor  # (queries,) rows of everything
    sets: Sets  # the chosen queries and the gallery
    itself: Sets  # the chosen queries and the set that they are from
    scratch_bytes: int
    shared: bool


class Found(NamedTuple):
    """What a stage found, by the names of `Scores`."""

    figures: dict[str, Any]
    values: dict[str, Tensor]  # of each query


def measure_retrieval(task: Task, tell: Progress) -> Found:
    """Return every retrieval measure that is wanted."""
    part, choices = Part.of(len(task.sets.labels), task.shared), task.choices
    values = retrieval(
        task.sets.some(part.rows),
        choices.measures,
        choices.recall_at,
        choices.precision_at,
        scratch_bytes=task.scratch_bytes,
        progress=tell,
        ndcg_at=choices.ndcg_at,
    )
    values = {name: part.gather(value) for name, value in values.items()}
    return Found(_means(values), values)


def _means(values: dict[str, Tensor]) -> dict[str, Any]:
    """Return the means over the queries that are not lone."""
    figures: dict[str, Any] = {"recall_at": {}, "precision_at": {}, "ir_recall_at": {}}
    for name, value in values.items():
        kind, _, k = name.rpartition("_")
        if kind in figures or kind == GRADED:
            figures.setdefault(kind, {})[int(k)] = float(value.nanmean())
        else:
            figures[name] = float(value.nanmean())
    return figures


def measure_silhouette(task: Task, tell: Progress) -> Found:
    """Return the silhouette."""
    part = Part.of(len(task.itself.labels), task.shared)
    values = part.gather(
        silhouette(
            task.itself.some(part.rows),
            distance=task.choices.silhouette_distance,
            scratch_bytes=task.scratch_bytes,
            progress=tell,
        )
    )
    return Found({"silhouette": float(values.mean())}, {"silhouette": values})


def measure_vote(task: Task, tell: Progress) -> Found:
    """Return accuracy and macro-F1 of a vote of the neighbors."""
    part, labels = Part.of(len(task.sets.labels), task.shared), task.sets.classes()[0]
    sets = task.sets.some(part.rows)
    mine = vote(sets, task.choices.neighbors, scratch_bytes=task.scratch_bytes, progress=tell)
    votes = Vote(*(part.gather(field) for field in mine))
    by_class = class_report(labels, votes.prediction, votes.known)
    right = ((votes.prediction == labels) & votes.known).double()
    figures = {"accuracy": by_class.accuracy, "macro_f1": by_class.macro_f1, "vote": votes, "report": by_class}
    return Found(figures, {"accuracy": right})


def measure_clusters(task: Task, tell: Progress) -> Found:
    """Return what the classes and k-means clusters of the whole set share."""
    rows, labels = task.everything.query, task.everything.classes()[0]
    clusters = k_means(
        rows,
        len(torch.unique(labels)),
        seed=task.choices.seed,
        scratch_bytes=task.scratch_bytes,
        progress=tell,
        shared=task.shared,
    )
    return Found({"nmi": nmi(labels, clusters), "ami": ami(labels, clusters)}, {})


def measure_verification(task: Task, tell: Progress) -> Found:
    """Return how well a threshold tells pairs of one class from others."""
    sets = task.sets
    whole = sets.own is not None and len(task.chosen) == len(sets.gallery_labels)  # each two rows once
    labels, gallery_labels = sets.classes()
    gallery = {} if whole else {"gallery": sets.gallery, "gallery_labels": gallery_labels, "own": sets.own}
    scores = verification(
        sets.query, labels, **gallery, scratch_bytes=task.scratch_bytes, progress=tell, shared=task.shared
    )
    return Found({"verification": scores}, {})


def measure_collapse(task: Task, tell: Progress) -> Found:
    """Return how the whole set fills its space."""
    statistics = broadcast_from_rank0(
        lambda: collapse(task.everything.query, scratch_bytes=task.scratch_bytes, progress=tell), task.shared
    )
    return Found({"collapse": statistics}, {})


STAGES: dict[str, Callable[[Task, Progress], Found]] = {
    "retrieval": measure_retrieval,
    "silhouette": measure_silhouette,
    "accuracy": measure_vote,
    "nmi": measure_clusters,
    "verification": measure_verification,
    "collapse": measure_collapse,
}
