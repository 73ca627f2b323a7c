"""What needs no training: a loss that is not clearly above these has learned nothing.

raw_pixels    the image itself as its embedding: the middle square at 32 pixels or less, its pixels in a row
untrained     the embedder as it was before the first step, of the same seed
"""

from typing import Any

import torch
from torch import Tensor

from shadowmetric.app.data.loading import batches_in_order
from shadowmetric.app.models.from_settings import embedder_for
from shadowmetric.app.training.preparation import Parts
from shadowmetric.app.training.scoring import parts_to_score, score_test, scores_of_rows
from shadowmetric.evaluation import Scores
from shadowmetric.progress import Report

SIDE = 32  # pixels
FLOORS = ("raw_pixels", "untrained")


def score_raw_pixels(parts: Parts) -> tuple[Scores, dict[str, Any]]:
    """Return the scores of the images themselves."""
    rows: dict[str, Tensor] = {}
    for name, split in parts_to_score(parts.dataset).items():
        side = min(SIDE, parts.shape.size)
        rows[name] = torch.empty(len(split), parts.shape.channels * side * side)
        done = 0
        for batch in batches_in_order(split, parts.shape, 256):
            small = torch.nn.functional.adaptive_avg_pool2d(batch.images.float() / 255, side)
            rows[name][done : done + len(small)] = small.flatten(1)
            done += len(small)
    return scores_of_rows(rows, parts.dataset)


def score_untrained(parts: Parts, report: Report | None = None) -> tuple[Scores, dict[str, Any]]:
    """Return the scores of the embedder before training, with the seed and the weights of the settings."""
    return score_test(embedder_for(parts.settings), parts.dataset, parts.shape, report)
