"""What needs no training: a loss that is not clearly above these has learned nothing.

raw_pixels        the image itself as its embedding: the middle square at 32 pixels or less, its pixels in a row
pooled_features   where training begins with pretrained weights: what the backbone gives a head, all dimensions of it
untrained         the embedder as it was before the first step, of the same seed
"""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from shadowmetric.app.data.feature_rows import FeatureRows
from shadowmetric.app.data.loading import batches_in_order
from shadowmetric.app.training.features.first_head import first_embedder
from shadowmetric.app.training.preparation import Parts
from shadowmetric.app.training.runs.settings import TrainSettings, with_recipe
from shadowmetric.app.training.scoring import embed, parts_to_score, score_test, scores_of_rows
from shadowmetric.errors import Mistake
from shadowmetric.evaluation import Scores, evaluate
from shadowmetric.progress import Report

SIDE = 32  # pixels
Preparation = Callable[..., Parts]
RAW_PIXELS, POOLED, UNTRAINED = FLOORS = ("raw_pixels", "pooled_features", "untrained")


def floors_of(settings: TrainSettings) -> tuple[str, ...]:
    """Return the floors below a training with these settings."""
    return FLOORS if with_recipe(settings).weights not in (None, "none") else (RAW_PIXELS, UNTRAINED)


def score_floor(
    name: str, settings: TrainSettings, prepare: Preparation, report: Report
) -> tuple[Scores, dict[str, Any]]:
    """Return the scores of a floor for a seed, and what they were measured on. prepare: `preparation.prepare`."""
    features = name != RAW_PIXELS and POOLED in floors_of(settings)
    parts = prepare(replace(settings, patience=0), report, features=features)
    score = {RAW_PIXELS: score_raw_pixels, POOLED: score_pooled_features, UNTRAINED: score_untrained}[name]
    scores, figures = score(parts, report)
    return scores, figures | {"selected_on": "nothing: not trained", "notes": list(parts.notes)}


def score_raw_pixels(parts: Parts, report: Report | None = None) -> tuple[Scores, dict[str, Any]]:
    """Return the scores of the images themselves."""
    return scores_of_rows(pixel_rows(parts), parts.dataset, report)


def pixel_rows(parts: Parts) -> dict[str, Tensor]:
    """Return the images themselves as rows, of each part that is scored."""
    rows: dict[str, Tensor] = {}
    for name, split in parts_to_score(parts.dataset).items():
        side = min(SIDE, parts.shape.size)
        rows[name] = torch.empty(len(split), parts.shape.channels * side * side)
        done = 0
        for batch in batches_in_order(split, parts.shape, 256):
            small = torch.nn.functional.adaptive_avg_pool2d(batch.images.float() / 255, side)
            rows[name][done : done + len(small)] = small.flatten(1)
            done += len(small)
    return rows


def score_pooled_features(parts: Parts, report: Report | None = None) -> tuple[Scores, dict[str, Any]]:
    """Return the scores of the backbone's features, compared by their directions as embeddings are."""
    sources = {name: split.images for name, split in parts_to_score(parts.dataset).items()}
    rows = {name: images.rows for name, images in sources.items() if isinstance(images, FeatureRows)}
    return scores_of_rows(rows, parts.dataset, report)


def score_untrained(parts: Parts, report: Report | None = None) -> tuple[Scores, dict[str, Any]]:
    """Return the scores of the embedder before training, with the seed and the weights of the settings."""
    return score_test(first_embedder(parts), parts.dataset, parts.shape, report)


def recall_of_floors(parts: Parts) -> dict[str, float]:
    """Return Recall@1 of what was never trained, in the protocol of a run's scores, and nothing else of it.

    Without the untrained embedder where its weights are not on this machine.
    """
    rows = {RAW_PIXELS: pixel_rows(parts)}
    with contextlib.suppress(Mistake):
        embedder = first_embedder(parts)
        splits = parts_to_score(parts.dataset)
        rows[UNTRAINED] = {name: embed(embedder, split, parts.shape) for name, split in splits.items()}
    return {name: recall_at_1(part, parts) for name, part in rows.items()}


def recall_at_1(rows: dict[str, Tensor], parts: Parts) -> float:
    """Return Recall@1 of the test images, in the gallery that the dataset brings, else among themselves."""
    test, gallery = parts.dataset.test, parts.dataset.gallery
    scores = evaluate(
        rows["test"],
        torch.from_numpy(test.labels),
        gallery=None if gallery is None else rows["gallery"],
        gallery_labels=None if gallery is None else torch.from_numpy(gallery.labels),
        measures=("recall_at",),
        recall_at=(1,),
    )
    return scores.recall_at[1]
