"""A backbone with its weights as a run that was never trained: its pooled features are the embeddings.

The folder has settings and weights as any run has, and no scores: `index`, `search` and `serve` need nothing else. A
second call with the same backbone and weights finds it as it is.
"""

from dataclasses import replace
from pathlib import Path

from shadowmetric.app.data.preprocessing import RESIZE, SIZE
from shadowmetric.app.models import Embedder
from shadowmetric.app.models.from_settings import embedder_for
from shadowmetric.app.training.features.first_head import pass_on
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings, check_settings, resolve_settings
from shadowmetric.app.training.runs.tensor_files import save_tensors
from shadowmetric.errors import Mistake


def pooled_run(folder: Path, images: Path, backbone: str, weights: str | None, size: int = SIZE) -> Run:
    """Return the run of a backbone with these weights, "pretrained" or a file, after making its folder if need be."""
    asked = TrainSettings(
        data=f"folder:{images}", backbone=backbone, weights=weights or "pretrained", epochs=0, size=size
    )
    check_settings(asked)
    resize = round(size * RESIZE / SIZE)
    settings = resolve_settings(asked, size=size, resize=resize, channels=3)
    run = Run(folder)
    if run.best_file.exists():
        there = run.settings()
        if (there.backbone, there.weights, there.size) == (settings.backbone, settings.weights, settings.size):
            return run
        raise Mistake(
            f"{folder} holds {there.backbone} with {there.weights} at {there.size} pixels; name another index by "
            "--out, or remove that folder."
        )
    embedder = untrained(replace(settings, dim=feature_count(settings)))
    run.begin(replace(settings, dim=embedder.head.out_features))
    run.write(run.best_file, lambda place: save_tensors(place, embedder.state_dict()))
    return run


def untrained(settings: TrainSettings) -> Embedder:
    """Return the embedder whose embeddings are its backbone's features."""
    embedder = embedder_for(settings)
    pass_on(embedder.head)
    return embedder


def feature_count(settings: TrainSettings) -> int:
    """Return how many features the backbone of resolved settings has."""
    return embedder_for(replace(settings, weights=None)).head.in_features
