"""The first weights of an embedder, and where a head on frozen features begins: at their principal components.

    head(f) = V (f - mean)      the rows of V: the directions in which the training features differ most

So a run begins about where its pooled features are, and not at a random projection of them, which loses a good part
and takes hundreds of steps to come back. Rows beyond the number of features stay as the seed draws them.

Cost: one product of the features with themselves and the eigenvectors of (features, features), in float64.
"""

import torch
from torch import Tensor, nn

from shadowmetric.app.data.feature_rows import FeatureRows
from shadowmetric.app.models import Embedder
from shadowmetric.app.models.from_settings import embedder_for
from shadowmetric.app.training.preparation import Parts
from shadowmetric.app.training.runs.recipes import HEAD_ONLY


def first_embedder(parts: Parts) -> Embedder:
    """Return the embedder of a run before its first step."""
    embedder = embedder_for(parts.settings)
    images = parts.train.images
    if parts.settings.epochs == 0 and parts.settings.weights != "none":
        pass_on(embedder.head)
    elif parts.settings.recipe == HEAD_ONLY and isinstance(images, FeatureRows):
        embedder.backbone.requires_grad_(False)
        begin_at_components(embedder.head, images.rows)
    return embedder


@torch.no_grad()
def pass_on(head: nn.Linear) -> None:
    """Let a head give its features as they are: no training at all."""
    nn.init.eye_(head.weight)
    nn.init.zeros_(head.bias)


@torch.no_grad()
def begin_at_components(head: nn.Linear, rows: Tensor) -> None:
    """Let a head project on the principal components of some features."""
    mean = rows.mean(0, dtype=torch.float64)
    spread = torch.zeros(len(mean), len(mean), dtype=torch.float64)
    for some in rows.split(2048):
        centered = some.double() - mean
        spread.addmm_(centered.T, centered)
    directions = torch.linalg.eigh(spread).eigenvectors.T.flip(0)[: head.out_features]  # the largest first
    largest = directions.gather(1, directions.abs().argmax(1, keepdim=True))
    directions = directions * largest.sign()  # else it would be up to the library
    head.weight[: len(directions)] = directions.to(head.weight)
    head.bias.zero_()
    head.bias[: len(directions)] = -(directions @ mean).to(head.bias)
