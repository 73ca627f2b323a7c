"""Fashion-MNIST: 60,000 + 10,000 articles of clothing, 28 × 28, gray. H. Xiao, K. Rasul, R. Vollgraf, 2017.

Read from `FashionMNIST/raw` below the data root, in the four files of MNIST's layout, or in any other layout that is
read for MNIST; tables are `fashion-mnist_train.csv` and `fashion-mnist_test.csv`, arrays `fashion-mnist.npz`. Memory:
55 MB, all images.
"""

from pathlib import Path

from shadowmetric.app.data.dataset import STANDARD, Dataset, Reader
from shadowmetric.app.data.datasets.downloads import download_with_torchvision
from shadowmetric.app.data.datasets.formats.layouts import read_copy
from shadowmetric.app.data.datasets.mnist import ARCHIVES, layouts_of

CLASSES = "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"


def read_fashion_mnist(root: Path, allow_partial: bool = False) -> Dataset:
    """Return Fashion-MNIST below a data root."""
    return read_copy(FASHION_MNIST, root, LAYOUTS, allow_partial)


def download(root: Path) -> None:
    """Get it through torchvision, which compares the files with their md5."""
    download_with_torchvision("FashionMNIST", FASHION_MNIST.folder, root)


ARRAYS = ("fashion-mnist.npz", "fashion_mnist.npz")
LAYOUTS = layouts_of(CLASSES, mirrors=True, arrays=ARRAYS, table="fashion-mnist")
FASHION_MNIST = Reader(
    name="fashion_mnist",
    title="Fashion-MNIST",
    folder="FashionMNIST/raw",
    kind=STANDARD,
    images={"train": 60_000, "test": 10_000},
    classes={"train": 10, "test": 10},
    source="https://github.com/zalandoresearch/fashion-mnist",
    terms="MIT",
    read=read_fashion_mnist,
    download=download,
    archives=ARCHIVES,
    other_folders=("fashion", "fashion-mnist-master", "fashion_mnist_png"),
    files=ARRAYS,
)
