"""What needs no training: a loss that is not clearly above these has learnt nothing.

raw_pixels    the picture itself as its embedding: the middle square, its pixels in a row
untrained     the embedder as it was before the first step, of the same seed
"""

from typing import Any

import torch
from torch import Tensor

from shadowmetric.data.loading import batches_in_order
from shadowmetric.evaluation import Scores
from shadowmetric.training.preparation import Parts
from shadowmetric.training.scoring import needed, score_test, scores_of_rows
from shadowmetric.training.setup import embedder_for

FLOORS = ("raw_pixels", "untrained")


def raw_pixels(parts: Parts) -> tuple[Scores, dict[str, Any]]:
    """Return the scores of the pictures themselves."""
    rows: dict[str, Tensor] = {}
    for name, split in needed(parts.dataset).items():
        squares = [batch.images.flatten(1).float() / 255 for batch in batches_in_order(split, parts.shape, 1024)]
        rows[name] = torch.cat(squares)
    return scores_of_rows(rows, parts.dataset)


def untrained(parts: Parts) -> tuple[Scores, dict[str, Any]]:
    """Return the scores of the embedder before training, with the seed and the weights of the settings."""
    channels = parts.shape.channels
    return score_test(embedder_for(parts.settings, channels), parts.dataset, parts.shape)
