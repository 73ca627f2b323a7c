"""CIFAR-100: 50,000 + 10,000 photos of a hundred things, 32 × 32, in color. A. Krizhevsky, 2009.

Read from the official pickles in `cifar-100-python` below the data root, by their fine labels; or from the binary
files, `cifar-100-binary/{train,test}.bin`; or from a folder per class, `cifar100-png/{train,test}/CLASS/*.png` or
`cifar100/{train,test}/SUPERCLASS/CLASS/*.png`, where the classes are numbered by their sorted names, as in the official
files. Memory: 184 MB, all images.
"""

from pathlib import Path

from shadowmetric.app.data.dataset import STANDARD, Dataset, Reader
from shadowmetric.app.data.datasets.downloads import download_with_torchvision
from shadowmetric.app.data.datasets.formats.cifar_binary import read_binary
from shadowmetric.app.data.datasets.formats.cifar_pickles import (
    CHANNELS,
    SIDE,
    find_pickles,
    read_pickle,
    read_split,
)
from shadowmetric.app.data.datasets.formats.class_folders import TEST, TRAIN, read_parts
from shadowmetric.app.data.datasets.formats.layouts import Layout, read_copy
from shadowmetric.app.data.datasets.formats.lists import read_list

PARTS = ("train", "test")
NAMES = "fine_label_names.txt"  # of the binary files
SUMS = {  # md5, as torchvision has them
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    "meta": "7973b15100ade9c7d40fb424638fde48",
}


def read_cifar100(root: Path, allow_partial: bool = False) -> Dataset:
    """Return CIFAR-100 below a data root."""
    return read_copy(CIFAR100, root, LAYOUTS, allow_partial)


def parse_pickles(reader: Reader, root: Path) -> Dataset:
    """Return what the official pickles hold."""
    paths = find_pickles(reader, root, tuple(SUMS))
    train, test = (read_split([paths[part]], SUMS, "fine_labels", f"{part} image") for part in PARTS)
    classes = tuple(read_pickle(paths["meta"], SUMS["meta"])["fine_label_names"])
    return Dataset(reader.name, reader.kind, train, test, classes)


def parse_binary(reader: Reader, root: Path) -> Dataset:
    """Return what the binary files hold: a coarse label, a fine one, and pixels."""
    classes = tuple(read_list(reader, root, NAMES, str.strip, "a class"))
    train, test = (
        read_binary(reader, root, [f"{part}.bin"], f"{part} image", labels=2, classes=len(classes)) for part in PARTS
    )
    return Dataset(reader.name, reader.kind, train, test, classes)


def parse_folders(reader: Reader, root: Path) -> Dataset:
    """Return the images in folders of classes."""
    return read_parts(reader, root, (CHANNELS, SIDE))


def download(root: Path) -> None:
    """Get it through torchvision, which compares the archive with its md5."""
    download_with_torchvision("CIFAR100", CIFAR100.folder, root)


LAYOUTS = (
    Layout("the official pickles", ("meta",), parse_pickles),
    Layout("the binary files", ("train.bin", "test.bin"), parse_binary),
    Layout("a folder per class", (*TRAIN, *TEST), parse_folders),
)
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
    other_folders=("cifar-100-binary", "cifar100-png", "cifar100", "cifar-100-images", "cifar-100-python-target"),
)
