"""CIFAR-10: 50,000 + 10,000 photos of ten things, 32 × 32, in color. A. Krizhevsky, 2009.

Read from the official pickles in `cifar-10-batches-py` below the data root; or from the binary files,
`cifar-10-batches-bin/*.bin`; or from a folder per class, `cifar10/{train,test}/CLASS/*.png`. Memory: 184 MB, all
images.
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
from shadowmetric.app.data.datasets.formats.class_folders import TEST as TEST_FOLDERS
from shadowmetric.app.data.datasets.formats.class_folders import TRAIN as TRAIN_FOLDERS
from shadowmetric.app.data.datasets.formats.class_folders import read_parts
from shadowmetric.app.data.datasets.formats.layouts import Layout, read_copy

TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST, NAMES = "test_batch", "batches.meta"
SUMS = {  # md5, as torchvision has them
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
    "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
}


CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def read_cifar10(root: Path, allow_partial: bool = False) -> Dataset:
    """Return CIFAR-10 below a data root."""
    return read_copy(CIFAR10, root, LAYOUTS, allow_partial)


def parse_pickles(reader: Reader, root: Path) -> Dataset:
    """Return what the official pickles hold."""
    paths = find_pickles(reader, root, tuple(SUMS))
    train = read_split([paths[name] for name in TRAIN], SUMS, "labels", "train image")
    test = read_split([paths[TEST]], SUMS, "labels", "test image")
    return Dataset(reader.name, reader.kind, train, test, tuple(read_pickle(paths[NAMES], SUMS[NAMES])["label_names"]))


def parse_binary(reader: Reader, root: Path) -> Dataset:
    """Return what the binary files hold."""
    train = read_binary(reader, root, [f"{name}.bin" for name in TRAIN], "train image")
    test = read_binary(reader, root, [f"{TEST}.bin"], "test image")
    return Dataset(reader.name, reader.kind, train, test, CLASSES)


def parse_folders(reader: Reader, root: Path) -> Dataset:
    """Return the images in folders of classes."""
    return read_parts(reader, root, (CHANNELS, SIDE), CLASSES)


def download(root: Path) -> None:
    """Get it through torchvision, which compares the archive with its md5."""
    download_with_torchvision("CIFAR10", CIFAR10.folder, root)


LAYOUTS = (
    Layout("the official pickles", tuple(SUMS), parse_pickles),
    Layout("the binary files", tuple(f"{name}.bin" for name in (*TRAIN, TEST)), parse_binary),
    Layout("a folder per class", (*TRAIN_FOLDERS, *TEST_FOLDERS), parse_folders),
)
CIFAR10 = Reader(
    name="cifar10",
    title="CIFAR-10",
    folder="cifar-10-batches-py",
    kind=STANDARD,
    images={"train": 50_000, "test": 10_000},
    classes={"train": 10, "test": 10},
    source="https://www.cs.toronto.edu/~kriz/cifar.html",
    terms="none stated",
    read=read_cifar10,
    download=download,
    archives=("cifar-10-python.tar.gz",),
    other_folders=("cifar-10-batches-bin", "cifar10", "cifar10-png", "cifar-10-images", "cifar-10-batches-py-target"),
)
