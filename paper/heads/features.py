"""What heads are trained on: pooled features of a pretrained network, computed once and kept in a file.

    features    the backbone's pooled rows, (images, 1280) for EfficientNet-Lite0, of images at rest: no augmentation
    rows        features in the first 256 principal directions of the training images, each divided by the fourth root
                of its variance (halfway to whitening), then all by one number, so that the mean squared length is 256

Both are linear, so a head on rows is a head on features. With 5,000 images of CUB-200 a head on the 1,280 features
themselves learns them by heart and ends below them; on rows it ends above (LOG.md, 2026-11-19).

Memory: the features, 5 kB an image; the file has them as float16.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from shadowmetric.app.compare.cells import ensure_folder
from shadowmetric.app.data.dataset import ZERO_SHOT, Dataset
from shadowmetric.app.data.loading import batches_in_order
from shadowmetric.app.data.splits import part_classes, part_images
from shadowmetric.app.models.from_settings import embedder_for
from shadowmetric.app.training.preparation import LEAST_CLASSES, Parts, prepare
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.progress import Report
from shadowmetric.runtime.files import write_whole

BACKBONE = "timm:tf_efficientnet_lite0"
DIRECTIONS = 256
NOTHING = 1e-9  # of the largest variance: rounding
VALIDATION = 0.1
BATCH = 128


@dataclass(frozen=True, eq=False)
class Rows:
    """The features of a dataset, and how its training images are parted; the parting is the same for every seed."""

    features: dict[str, Tensor]  # "train" and "test", as pooled
    labels: dict[str, Tensor]
    kept: Tensor  # of the training images, those that are trained on
    held: Tensor  # those that settings are chosen on
    unseen: bool  # whether training has none of the test images' classes

    def reduced(self) -> dict[str, Tensor]:
        """Return the rows that heads take; directions are those of the images that are trained on."""
        train = self.features["train"][self.kept].double()
        mean = train.mean(0)
        variances, directions = torch.linalg.eigh(torch.cov((train - mean).T))
        variances, directions = variances.flip(0)[:DIRECTIONS], directions.flip(1)[:, :DIRECTIONS]
        known = variances > NOTHING * variances[0]  # the images are too few for more
        scaled = torch.where(known, directions / variances.clamp_min(0) ** 0.25, 0.0)
        rows = {name: (some.double() - mean) @ scaled for name, some in self.features.items()}
        factor = (DIRECTIONS / rows["train"][self.kept].square().sum(1).mean()).sqrt()
        return {name: (factor * some).float() for name, some in rows.items()}


def load_rows(
    data: str, size: int, folder: Path, data_root: Path | None, weights: str | None, most: int | None, tell: Report
) -> Rows:
    """Return the features of a dataset, from their file or computed now; another process that does is waited for."""
    file = ensure_folder(folder) / f"{data}-{size}{'' if most is None else f'-{most}'}.npz"
    with FileLock(f"{file}.lock"):
        if not file.exists():
            settings = TrainSettings(
                data=data,
                data_root=data_root,
                backbone=BACKBONE,
                weights=weights or "pretrained",
                size=size,
                resize=size,
                most_per_class=most,
                allow_partial=True,
                patience=0,
            )
            write_features(file, prepare(settings, tell), tell)
    with np.load(file) as arrays:
        parts = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    return Rows(
        {name: parts[f"{name}_features"].float() for name in ("train", "test")},
        {name: parts[f"{name}_labels"] for name in ("train", "test")},
        parts["kept"],
        parts["held"],
        bool(parts["unseen"]),
    )


def write_features(file: Path, parts: Parts, tell: Report) -> None:
    """Compute the features of all images, and write them with their labels and the parting."""
    embedder = embedder_for(parts.settings).eval()
    arrays: dict[str, np.ndarray] = {}
    for name, split in (("train", parts.dataset.train), ("test", parts.dataset.test)):
        rows: list[Tensor] = []
        with torch.no_grad():
            for batch in batches_in_order(split, parts.shape, BATCH):
                rows.append(embedder.features(batch.images).half())
                tell(f"features of {name}", len(rows) * BATCH / len(split))
        arrays |= {f"{name}_features": torch.cat(rows).numpy(), f"{name}_labels": split.labels}
    kept, held = parting(parts.dataset)
    arrays |= {"kept": kept, "held": held, "unseen": np.array(parts.dataset.kind == ZERO_SHOT)}
    write_whole(file, lambda place: save_arrays(place, arrays))


def save_arrays(place: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays to a file of any name."""
    with place.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)


def parting(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of training images to train on and to choose on: whole classes where the test's are new."""
    train = dataset.train
    if dataset.kind == ZERO_SHOT and len(np.unique(train.labels)) >= LEAST_CLASSES:
        return part_classes(train.labels, VALIDATION, seed=0)
    return part_images(train.labels, VALIDATION, seed=0, groups=train.groups, least=2)
