"""Batches of images as an embedder takes them: drawn for training, in order for evaluation.

A batch is asked for as a whole (torch's `__getitems__`), with the seed of its random changes, so that nothing depends
on how many workers there are. Images in memory need none: the batch is made where it is used. Images that must be
decoded are made by worker processes ahead of their use.
"""

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from shadowmetric.app.data.augmentation import NONE, Augmentation
from shadowmetric.app.data.cache import ResizedImages
from shadowmetric.app.data.dataset import Split
from shadowmetric.app.data.feature_rows import FeatureRows
from shadowmetric.app.data.images import ArrayImages
from shadowmetric.app.data.preprocessing import Preprocessing
from shadowmetric.batches.sampler import BatchSampler
from shadowmetric.errors import BrokenImage


class Draw(NamedTuple):
    """The images of a batch, the seed of what is changed in them at random, and which of them a rank takes."""

    numbers: list[int]
    seed: int
    share: range


class Batch(NamedTuple):
    """Images as an embedder takes them."""

    images: Tensor  # (batch, channels, size, size) uint8; of feature rows (batch, features) float32
    labels: Tensor  # (batch,) int64
    numbers: list[int]  # in the split
    whole: list[int]  # the numbers of the whole batch, of which this is a rank's share


@dataclass(frozen=True, eq=False)
class Images:
    """A split from which whole batches are asked for."""

    split: Split
    shape: Preprocessing
    augmentation: Augmentation

    def __len__(self) -> int:
        return len(self.split)

    def __getitems__(self, draw: Draw) -> Batch:
        images, numbers = self.split.images, draw.numbers[draw.share.start : draw.share.stop]
        labels = torch.from_numpy(self.split.labels[numbers])
        if isinstance(images, FeatureRows):
            return Batch(images.rows[torch.tensor(numbers)], labels, numbers, draw.numbers)
        if isinstance(images, ArrayImages):
            pixels = images.pixels[torch.tensor(numbers)]
        else:
            pixels = [images.read(number) for number in numbers]
        return Batch(self.augmentation(pixels, self.shape, draw.seed, draw.share.start), labels, numbers, draw.numbers)


@dataclass(frozen=True, eq=False)
class Draws:
    """The batches of a sampler with the seed of each."""

    sampler: BatchSampler

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[Draw]:
        sampler = self.sampler
        for place, numbers in enumerate(sampler.whole_batches(), start=sampler.position):
            key = (sampler.seed, sampler.epoch, place)
            seed = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> 1)
            yield Draw(numbers, seed, sampler.share_of(numbers))


def training_batches(
    split: Split, shape: Preprocessing, augmentation: Augmentation, sampler: BatchSampler, workers: int = 0
) -> Iterator[Batch]:
    """Yield the rest of the sampler's epoch."""
    return _load(Images(split, shape, augmentation), Draws(sampler), workers)


def batches_in_order(
    split: Split, shape: Preprocessing, batch: int, workers: int = 0, some: range | None = None
) -> Iterator[Batch]:
    """Yield every image once, or some of them, the middle of it."""
    some = range(len(split)) if some is None else some
    parts = [list(some[start : start + batch]) for start in range(0, len(some), batch)]
    return _load(Images(split, shape, NONE), [Draw(part, 0, range(len(part))) for part in parts], workers)


def choose_workers(split: Split, cores: int) -> int:
    """Return how many workers suit a split: none for images in memory, else one less than the cores, at most 8."""
    return min(8, max(1, cores - 1)) if isinstance(split.images, ResizedImages) else 0


def _load(images: Any, draws: Any, workers: int) -> Iterator[Batch]:
    loader = DataLoader(
        images,
        batch_sampler=draws,
        collate_fn=_as_it_is,
        num_workers=workers,
        worker_init_fn=_one_thread,
        generator=torch.Generator(),  # else each epoch would draw a number from the run's own
    )
    try:
        yield from loader
    except BrokenImage as broken:  # a worker's comes with its traceback in front
        raise BrokenImage(str(broken).strip().splitlines()[-1].split("BrokenImage: ")[-1]) from None


def _as_it_is(batch: Any) -> Any:
    return batch


def _one_thread(_: int) -> None:
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that trains, which ends its workers
