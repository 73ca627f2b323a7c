"""CIFAR-10: 50,000 + 10,000 photos of ten things, 32 × 32, in color. A. Krizhevsky, 2009.

Read from the official pickles in `cifar-10-batches-py` below the data root. Memory: 184 MB, all images.
"""

from pathlib import Path

from shadowmetric.app.data.dataset import STANDARD, Dataset, Reader, check_counts
from shadowmetric.app.data.datasets.cifar_pickles import find_pickles, read_pickle, read_split
from shadowmetric.app.data.datasets.downloads import download_with_torchvision

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


def read_cifar10(root: Path, allow_partial: bool = False) -> Dataset:
    """Return CIFAR-10 below a data root."""
    paths = find_pickles(CIFAR10, root, tuple(SUMS))
    dataset = Dataset(
        name="cifar10",
        kind=STANDARD,
        train=read_split([paths[name] for name in TRAIN], SUMS, "labels", "train image"),
        test=read_split([paths[TEST]], SUMS, "labels", "test image"),
        classes=tuple(read_pickle(paths[NAMES], SUMS[NAMES])["label_names"]),
    )
    return check_counts(CIFAR10, dataset, allow_partial)


def download(root: Path) -> None:
    """Get it through torchvision, which compares the archive with its md5."""
    download_with_torchvision("CIFAR10", CIFAR10.folder, root)


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
)
