"""MNIST: 60,000 + 10,000 handwritten digits, 28 × 28, gray. Y. LeCun, C. Cortes, C. J. C. Burges, 1998.

Read from `MNIST/raw` below the data root, four IDX files, gzipped or not, where torchvision puts them. A digit in a
mirror is not a digit, so these are never mirrored. Memory: 55 MB, all images.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from shadowmetric.app.data.dataset import STANDARD, Dataset, Reader, Split, check_counts
from shadowmetric.app.data.datasets.downloads import download_with_torchvision
from shadowmetric.app.data.datasets.idx import find_idx, read_idx
from shadowmetric.app.data.images import ArrayImages
from shadowmetric.errors import DataMistake

FILES = {"train": "train", "test": "t10k"}  # how the files of each part begin
ARCHIVES = tuple(f"{start}-{end}-ubyte.gz" for start in FILES.values() for end in ("images-idx3", "labels-idx1"))
SIDE = 28


def read_raw(reader: Reader, root: Path, allow_partial: bool, *, classes: Sequence[str], mirrors: bool) -> Dataset:
    """Return a dataset in MNIST's four files."""
    folder = root / reader.folder
    train, test = (read_part(reader, root, folder, part, len(classes)) for part in FILES)
    dataset = Dataset(reader.name, STANDARD, train, test, tuple(classes), mirrors=mirrors)
    return check_counts(reader, dataset, allow_partial)


def read_part(reader: Reader, root: Path, folder: Path, part: str, classes: int) -> Split:
    """Return one part: its images and their labels."""
    images_path, labels_path = (
        find_idx(folder, f"{FILES[part]}-{end}-ubyte") for end in ("images-idx3", "labels-idx1")
    )
    if images_path is None or labels_path is None:
        what = "images-idx3" if images_path is None else "labels-idx1"
        raise reader.missing(root, f"{reader.folder}/{FILES[part]}-{what}-ubyte")
    images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
    if images.shape[1:] != (SIDE, SIDE):
        raise DataMistake(f"{images_path} has images of {images.shape[1:]}, not of {SIDE} × {SIDE}; get it again.")
    if len(images) != len(labels):
        raise DataMistake(
            f"{images_path} has {len(images):,} images and {labels_path} {len(labels):,} labels; get both again."
        )
    if len(labels) and labels.max() >= classes:
        raise DataMistake(f"{labels_path} has the label {labels.max()}; there are {classes} classes, so get it again.")
    return Split(ArrayImages(torch.from_numpy(images[:, None]), f"{part} image"), labels.astype(np.int64))


def read_mnist(root: Path, allow_partial: bool = False) -> Dataset:
    """Return MNIST below a data root."""
    return read_raw(MNIST, root, allow_partial, classes="0123456789", mirrors=False)


def download(root: Path) -> None:
    """Get it through torchvision, which compares the files with their md5."""
    download_with_torchvision("MNIST", MNIST.folder, root)


MNIST = Reader(
    name="mnist",
    title="MNIST",
    folder="MNIST/raw",
    kind=STANDARD,
    images={"train": 60_000, "test": 10_000},
    classes={"train": 10, "test": 10},
    source="http://yann.lecun.com/exdb/mnist/",
    terms="none stated",
    read=read_mnist,
    download=download,
    archives=ARCHIVES,
)
