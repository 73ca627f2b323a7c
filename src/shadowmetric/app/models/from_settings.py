"""The embedder that the settings of a run describe, whoever trains it, and whoever only searches with it."""

from typing import Protocol, runtime_checkable

import torch

from shadowmetric.app.models.build import build_embedder
from shadowmetric.app.models.embedder import Embedder


@runtime_checkable
class EmbedderSettings(Protocol):
    """What of a run's settings decides its embedder; `TrainSettings` has it."""

    @property
    def backbone(self) -> str | None:
        """Name of the backbone."""
        ...

    @property
    def weights(self) -> str | None:
        """Weights to begin with: a file, "pretrained" or "none"."""
        ...

    @property
    def dim(self) -> int:
        """Embedding dimension."""
        ...

    @property
    def size(self) -> int | None:
        """Side of the square, in pixels."""
        ...

    @property
    def channels(self) -> int | None:
        """1 or 3."""
        ...

    @property
    def seed(self) -> int:
        """Seed of the first weights."""
        ...

    @property
    def freeze_batch_norm(self) -> bool | None:
        """Whether batch normalization keeps its statistics."""
        ...

    @property
    def unit_rows(self) -> bool:
        """Whether the loss compares unit rows."""
        ...

    @property
    def length_penalty(self) -> float:
        """What the length of a row costs."""
        ...


def embedder_for(settings: EmbedderSettings) -> Embedder:
    """Return the embedder that resolved settings describe, untrained or with the weights that they name."""
    if None in (settings.backbone, settings.size, settings.channels, settings.freeze_batch_norm):
        raise ValueError("the settings are not resolved; call `prepare` first.")
    embedder = build_embedder(
        str(settings.backbone),
        dim=settings.dim,
        channels=settings.channels or 3,
        size=settings.size or 0,
        weights=None if settings.weights == "none" else settings.weights,
        seed=settings.seed,
        freeze_batch_norm=bool(settings.freeze_batch_norm),
        unit=settings.unit_rows and not settings.length_penalty,  # then the loss divides by the length
    )
    embedder.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    return embedder
