"""CIFAR-100: 50,000 + 10,000 photos of a hundred things, 32 × 32, in color. A. Krizhevsky, 2009.

Read from the official pickles in `cifar-100-python` below the data root, by their fine labels. If those are not there,
from a copy with a folder per class, `cifar100-png/{train,test}/CLASS/*.png`; the classes are numbered by their sorted
names, as in the official files. Memory: 184 MB, all images.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from shadowmetric.app.data.dataset import STANDARD, Dataset, Reader, Split, check_counts
from shadowmetric.app.data.datasets.cifar_pickles import CHANNELS, SIDE, find_pickles, read_pickle, read_split
from shadowmetric.app.data.datasets.downloads import download_with_torchvision
from shadowmetric.app.data.images import ArrayImages, FileImages
from shadowmetric.app.data.own.folder import list_classes
from shadowmetric.errors import BrokenImage, DataMistake

PNG_FOLDER = "cifar100-png"
SUMS = {  # md5, as torchvision has them
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    "meta": "7973b15100ade9c7d40fb424638fde48",
}


def read_cifar100(root: Path, allow_partial: bool = False) -> Dataset:
    """Return CIFAR-100 below a data root."""
    pickles, folders = root / CIFAR100.folder, root / PNG_FOLDER
    if folders.is_dir() and not pickles.is_dir():
        dataset = check_counts(CIFAR100, _from_folders(folders), allow_partial)
        return replace(dataset, train=in_memory(dataset.train, "train"), test=in_memory(dataset.test, "test"))
    return check_counts(CIFAR100, _from_pickles(root), allow_partial)


def _from_pickles(root: Path) -> Dataset:
    paths = find_pickles(CIFAR100, root, tuple(SUMS))
    train, test = (read_split([paths[part]], SUMS, "fine_labels", f"{part} image") for part in ("train", "test"))
    classes = tuple(read_pickle(paths["meta"], SUMS["meta"])["fine_label_names"])
    return Dataset("cifar100", STANDARD, train, test, classes)


def _from_folders(folder: Path) -> Dataset:
    listings = {part: list_classes(folder / part).images for part in ("train", "test")}
    classes = sorted({name for part in listings.values() for name in part})
    parts = {}
    for part, files in listings.items():
        labels = np.repeat(np.arange(len(classes)), [len(files.get(name, ())) for name in classes])
        paths = [path for name in classes for path in files.get(name, ())]
        parts[part] = Split(FileImages(folder / part, paths), labels)
    note = f"Read from {PNG_FOLDER}, a folder per class, since {CIFAR100.folder} is not there."
    return Dataset("cifar100", STANDARD, parts["train"], parts["test"], tuple(classes), notes=(note,))


def in_memory(split: Split, title: str) -> Split:
    """Return a part with its images read into memory."""
    pixels = torch.empty(len(split), CHANNELS, SIDE, SIDE, dtype=torch.uint8)
    for number in range(len(split)):
        try:
            image = split.images.read(number)
        except BrokenImage as error:
            raise DataMistake(f"cifar100: {str(error).rstrip('.')}; get it again.") from None
        if image.shape != pixels.shape[1:]:
            name, shape = split.images.name(number), " × ".join(map(str, image.shape))
            raise DataMistake(f"cifar100: {title}/{name} is {shape}, not {CHANNELS} × {SIDE} × {SIDE}; get it again.")
        pixels[number] = image
    return Split(ArrayImages(pixels, f"{title} image"), split.labels)


def download(root: Path) -> None:
    """Get it through torchvision, which compares the archive with its md5."""
    download_with_torchvision("CIFAR100", CIFAR100.folder, root)


CIFAR100 = Reader(
    name="cifar100",
    title="CIFAR-100",
    folder="cifar-100-python",
    kind=STANDARD,
    images={"train": 50_000, "test": 10_000},
    classes={"train": 100, "test": 100},
    source="https://www.cs.toronto.edu/~kriz/cifar.html",
    terms="none stated",
    read=read_cifar100,
    download=download,
    archives=("cifar-100-python.tar.gz",),
)
