"""The images that contenders are tried on: six kinds, made small so that a cell takes seconds of one core.

A bed trains on a part of the training images. While settings are chosen, contenders are judged by the rest, the
validation images; the test images are looked at once, at the end. Where classes are known (`standard`), a judge also
asks for the nearest training image; where they are new, whole classes are held out.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from shadowmetric.app.data.augmentation import NONE
from shadowmetric.app.data.dataset import STANDARD, Split
from shadowmetric.app.data.loading import batches_in_order
from shadowmetric.app.training.preparation import Parts, prepare
from shadowmetric.app.training.runs.settings import TrainSettings

JudgedOn = Literal["validation", "test"]


@dataclass(frozen=True)
class Bed:
    """A dataset, and how much of it."""

    data: str
    size: int  # pixels
    most_per_class: int
    validation: float = 1 / 3

    def settings(self, data_root: Path | None) -> TrainSettings:
        """Return what `train` would be told."""
        return TrainSettings(
            data=self.data,
            data_root=data_root,
            allow_partial=True,
            size=self.size,
            resize=self.size,
            most_per_class=self.most_per_class,
            validation=self.validation,
        )


BEDS = {
    bed.data: bed
    for bed in (
        Bed("fashion_mnist", 28, 300),
        Bed("cifar10", 32, 300),
        Bed("cub200", 32, 30, 0.2),
        Bed("ham10000", 32, 300),
        Bed("tiny_imagenet", 32, 15),
        Bed("glyphs", 28, 30, 0.2),
    )
}


class Images(NamedTuple):
    """Images and labels in memory."""

    pixels: Tensor  # (images, channels, size, size) uint8
    labels: Tensor  # (images,) int64


@dataclass(frozen=True)
class Ground:
    """A bed, read."""

    parts: Parts
    train: Images
    judged: Images
    known: bool  # whether the judged classes are those of the training images


def read_bed(bed: Bed, data_root: Path | None, judged_on: JudgedOn) -> Ground:
    """Return the images of a bed."""
    parts = prepare(bed.settings(data_root))
    split = parts.validation if judged_on == "validation" else parts.dataset.test
    assert split is not None
    train, judged = (in_memory(parts, part) for part in (parts.train, split))
    known = parts.dataset.kind == STANDARD
    if known:  # labels of training were renumbered; those of what is judged must mean the same
        original = np.unique(parts.dataset.train.labels)
        judged = judged._replace(labels=torch.from_numpy(np.searchsorted(original, judged.labels.numpy())))
    squares = Split(as_source(train), parts.train.labels, parts.train.groups)
    return Ground(replace(parts, train=squares), train, judged, known)


def in_memory(parts: Parts, split: Split) -> Images:
    """Return the middle squares of a split."""
    assert NONE.kind == "none"
    pixels = torch.cat([batch.images for batch in batches_in_order(split, parts.shape, 256)])
    return Images(pixels, torch.from_numpy(split.labels))


def as_source(images: Images):
    """Return images in memory as a dataset has them."""
    from shadowmetric.app.data.images import ArrayImages

    return ArrayImages(images.pixels)
