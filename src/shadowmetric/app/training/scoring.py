"""Embeddings of a split, and the scores of a run.

Test images are searched among the other test images, or in the dataset's own gallery if it has one. Where
training and test share their classes, accuracy and macro-F1 are those of a vote of the five nearest training images,
and the nearest of them alone is asked as well: that is how such images will be used.

Memory: the embeddings, (images, dim) float32; images pass by a batch at a time.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from shadowmetric.app.data.dataset import STANDARD, ZERO_SHOT, Dataset, Split
from shadowmetric.app.data.loading import batches_in_order, choose_workers
from shadowmetric.app.data.preprocessing import Preprocessing
from shadowmetric.app.training.runs.headline import NEAREST, RECALL
from shadowmetric.evaluation import MEASURES, Scores, evaluate
from shadowmetric.evaluation.evaluate import SCRATCH_BYTES
from shadowmetric.ops.ranks import Ranks, gather_rows, ranks_here, share
from shadowmetric.progress import Report

BATCH = 128
RETRIEVAL = tuple(name for name in MEASURES if name != "accuracy")
EPOCH_MEASURES = ("recall_at", "map_at_r", "silhouette", "collapse")


@dataclass(frozen=True)
class How:
    """How much is done at once, and whether ranks share it."""

    batch: int = BATCH
    scratch_bytes: int = SCRATCH_BYTES
    shared: bool = False

    def of_evaluation(self) -> dict[str, Any]:
        """Return what `evaluate` is to be told."""
        return {"scratch_bytes": self.scratch_bytes, "shared": self.shared}


HERE = How()


@torch.no_grad()
def embed(
    embedder: nn.Module,
    split: Split,
    shape: Preprocessing,
    *,
    report: Report | None = None,
    workers: int | None = None,
    batch: int = BATCH,
    shared: bool = False,
) -> Tensor:
    """Return the embeddings of a split on the CPU, (images, dim) float32; the embedder's mode is put back.

    shared: each rank embeds its share, and every rank gets the embeddings of all.
    """
    device = next(embedder.parameters()).device
    rank, ranks = ranks_here() if shared and len(split) >= ranks_here().ranks else Ranks()
    some = share(len(split), rank, ranks)
    was_training = embedder.training
    embedder.eval()
    if workers is None:
        workers = choose_workers(split, torch.get_num_threads())
    embeddings, done = torch.empty(0), 0
    try:
        for images, *_ in batches_in_order(split, shape, batch, workers, some):
            rows = type(embedder).forward(embedder, images.to(device)).cpu()  # accelerate's autocast stays outside
            if done == 0:
                embeddings = torch.empty(len(some), rows.shape[1])
            embeddings[done : done + len(rows)] = rows
            done += len(rows)
            if report is not None:
                report("embedding", done / len(some))
    finally:
        embedder.train(was_training)
    return gather_rows(embeddings.to(device)).rows.cpu() if ranks > 1 else embeddings


def score_epoch(
    embedder: nn.Module, split: Split, shape: Preprocessing, report: Report | None = None, how: How = HERE
) -> Scores:
    """Return the figures that epochs are judged by."""
    rows = embed(embedder, split, shape, report=report, batch=how.batch, shared=how.shared)
    labels = torch.from_numpy(split.labels)
    return evaluate(
        rows, labels, measures=EPOCH_MEASURES, recall_at=(1,), progress=report or False, **how.of_evaluation()
    )


def score_test(
    embedder: nn.Module, dataset: Dataset, shape: Preprocessing, report: Report | None = None, how: How = HERE
) -> tuple[Scores, dict[str, Any]]:
    """Return the scores of the test split with the values of each query, and all figures in plain Python."""
    rows = {
        name: embed(embedder, split, shape, report=report, batch=how.batch, shared=how.shared)
        for name, split in parts_to_score(dataset).items()
    }
    return scores_of_rows(rows, dataset, report, how)


def parts_to_score(dataset: Dataset) -> dict[str, Split]:
    """Return the parts that the scores of the test split take."""
    parts = dataset.parts()
    if dataset.gallery is not None or dataset.kind != STANDARD:
        parts.pop("train")
    return parts


def scores_of_rows(
    rows: dict[str, Tensor], dataset: Dataset, report: Report | None = None, how: How = HERE
) -> tuple[Scores, dict[str, Any]]:
    """Return the scores of the embeddings of each part, by whatever they were made."""
    labels = {name: torch.from_numpy(split.labels) for name, split in parts_to_score(dataset).items()}
    unseen = {"unseen_classes": dataset.kind == ZERO_SHOT}  # training had none of the test images' classes
    query, query_labels, progress = rows["test"], labels["test"], report or False
    if "train" not in rows:
        scores = evaluate(
            query,
            query_labels,
            gallery=rows.get("gallery"),
            gallery_labels=labels.get("gallery"),
            progress=progress,
            **how.of_evaluation(),
        )
        voters = "test" if scores.setting.protocol == "leave-one-out" else "gallery"
        return scores, scores.as_dict() | unseen | {"accuracy_voters": f"{voters} images"} | intervals_of(scores)
    scores = evaluate(query, query_labels, measures=RETRIEVAL, progress=progress, **how.of_evaluation())
    vote = evaluate(
        query,
        query_labels,
        gallery=rows["train"],
        gallery_labels=labels["train"],
        measures=("recall_at", "accuracy"),
        recall_at=(1,),
        progress=progress,
        **how.of_evaluation(),
    )
    scores.per_query["accuracy"] = vote.per_query["accuracy"]
    scores.per_query[NEAREST] = vote.per_query["recall_at_1"]
    voted = {"accuracy": vote.accuracy, "macro_f1": vote.macro_f1, "accuracy_voters": "training images"}
    return scores, scores.as_dict() | unseen | voted | {NEAREST: vote.recall_at[1]} | intervals_of(scores)


def intervals_of(scores: Scores) -> dict[str, Any]:
    """Return the intervals of the two figures that lead, over test images; nothing where none could be measured."""
    measured = {name: scores.interval(name) for name in (RECALL, NEAREST) if name in scores.per_query}
    return {"intervals": {name: [one.low, one.high] for name, one in measured.items() if one.queries}}
