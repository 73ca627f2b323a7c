"""The features of a dataset under a frozen backbone, from files where they were computed before.

    features    backbone(the middle square of an image), pooled; no augmentation

The next images are decoded by threads while the backbone is at work on those before. A second process that wants the
same features waits for the first one.

Memory: the features; twice 512 resized images.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from shadowmetric.app.data.cache import ResizedImages, read_all, refusal_of
from shadowmetric.app.data.dataset import Dataset, Split
from shadowmetric.app.data.feature_rows import FeatureRows
from shadowmetric.app.data.preprocessing import Preprocessing, middle
from shadowmetric.app.data.root import data_root
from shadowmetric.app.models import Embedder
from shadowmetric.app.training.features.fingerprints import key_of
from shadowmetric.app.training.features.store import Store, cache_folder, parts_of
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.errors import DataMistake
from shadowmetric.progress import Progress, Report, silent
from shadowmetric.runtime.counting import count

BATCH = 128
KEY_LETTERS = 20  # of the SHA-256: 80 bits
STAGE = "computing features"


@dataclass(frozen=True, eq=False)
class Work:
    """What features are computed with."""

    embedder: Embedder
    shape: Preprocessing
    settings: TrainSettings
    report: Report = silent

    def store(self, split: Split) -> Store:
        """Return where the features of a split are kept."""
        settings, skip = self.settings, self.settings.broken == "skip"
        key = key_of(split.images, self.shape, self.embedder, str(settings.backbone), skip_broken=skip)
        return Store(cache_folder(data_root(settings.data_root)) / key[:KEY_LETTERS])


def with_features(dataset: Dataset, work: Work) -> Dataset:
    """Return the dataset with features in the place of images, and notes on where they are kept."""
    splits: dict[str, Split] = {}
    notes: list[str] = []
    total, done, computed = sum(len(split) for split in dataset.parts().values()), 0, 0
    for name, split in dataset.parts().items():

        def tell(share: float, done: int = done, images: int = len(split)) -> None:
            work.report(STAGE, (done + share * images) / total)

        splits[name], here = features_of(split, work, tell)
        done, computed = done + len(split), computed + here
        if broken := len(split) - len(splits[name]):
            words = f"image of {name} cannot be read and is", f"images of {name} cannot be read and are"
            notes.append(f"{count(broken, *words)} left out.")
    folder = cache_folder(data_root(work.settings.data_root))
    there = "all were there" if computed == 0 else f"{count(computed, 'image')} computed now"
    notes.append(f"The backbone is frozen: its features of {total:,} images are in {folder} ({there}).")
    return replace(dataset, **splits, notes=(*dataset.notes, *notes))


def features_of(split: Split, work: Work, tell: Progress) -> tuple[Split, int]:
    """Return a split with features in the place of images, and for how many images they had to be computed."""
    store, parts = work.store(split), parts_of(len(split))
    stored = {part: store.read(part) for part in range(len(parts))}
    missing = [part for part, one in stored.items() if one is None]
    if missing:
        store.make()
        with store.lock:
            stored |= {part: store.read(part) for part in missing}  # another process may have been at it
            missing = [part for part in missing if stored[part] is None]
            for done, (part, rows, numbers) in enumerate(compute(split, [parts[one] for one in missing], work), 1):
                store.write(missing[part], rows, numbers)
                stored[missing[part]] = rows, torch.tensor(numbers)
                tell(done / len(missing))
    whole = [one for one in stored.values() if one is not None]
    rows = torch.cat([rows for rows, _ in whole if len(rows)] or [torch.empty(0, 0)])
    numbers = torch.cat([numbers for _, numbers in whole]).numpy()
    if len(numbers) == 0:
        raise DataMistake(f"none of the {len(split)} images can be read.")
    names = [split.images.name(number) for number in numbers.tolist()]
    groups = None if split.groups is None else split.groups[numbers]
    return Split(FeatureRows(rows, names), split.labels[numbers], groups), sum(len(parts[one]) for one in missing)


def compute(split: Split, parts: list[range], work: Work) -> Iterator[tuple[int, Tensor, list[int]]]:
    """Yield the place of each part, the features of its images, and the numbers of those that can be read."""

    def decode(part: range) -> tuple[list[Tensor], list[int]]:
        images = ResizedImages(split.images.take(np.arange(part.start, part.stop)), work.shape)
        loaded, broken = read_all(images, keep=True, tell=None)
        if broken and work.settings.broken != "skip":
            raise refusal_of(broken)
        return loaded, [number for place, number in enumerate(part) if place not in broken]

    with ThreadPoolExecutor(1) as ahead:
        coming = [ahead.submit(decode, part) for part in parts[:1]]
        for place in range(len(parts)):
            images, numbers = coming.pop().result()
            coming += [ahead.submit(decode, part) for part in parts[place + 1 : place + 2]]
            yield place, embed_pooled(work.embedder, images, work.shape), numbers


@torch.no_grad()
def embed_pooled(embedder: Embedder, images: list[Tensor], shape: Preprocessing) -> Tensor:
    """Return the features of resized images on the CPU, (images, features) float32; the embedder's mode is put back."""
    device, was_training = next(embedder.parameters()).device, embedder.training
    embedder.eval()
    rows = []
    try:
        for first in range(0, len(images), BATCH):
            squares = torch.stack([middle(image, shape.size) for image in images[first : first + BATCH]])
            rows.append(embedder.features(squares.to(device)).float().cpu())
    finally:
        embedder.train(was_training)
    return torch.cat(rows) if rows else torch.empty(0, 0)
