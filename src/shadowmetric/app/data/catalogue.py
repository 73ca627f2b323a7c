"""Every dataset by name, and the one function that opens whatever `--data` may say.

NAME           one of DATASETS, below the data root; `-` and `_` are the same
folder:PATH    a folder per class
csv:FILE       a table of paths and labels
npz:FILE       arrays of images and labels
"""

import difflib
from pathlib import Path

from shadowmetric.app.data.dataset import Dataset, Reader
from shadowmetric.app.data.datasets.cars196 import CARS196
from shadowmetric.app.data.datasets.cifar10 import CIFAR10
from shadowmetric.app.data.datasets.cifar100 import CIFAR100
from shadowmetric.app.data.datasets.cub200 import CUB200
from shadowmetric.app.data.datasets.digits import DIGITS
from shadowmetric.app.data.datasets.fashion_mnist import FASHION_MNIST
from shadowmetric.app.data.datasets.formats.layouts import folders_of
from shadowmetric.app.data.datasets.glyphs import GLYPHS
from shadowmetric.app.data.datasets.ham10000 import HAM10000
from shadowmetric.app.data.datasets.inshop import INSHOP
from shadowmetric.app.data.datasets.mnist import MNIST
from shadowmetric.app.data.datasets.odir5k import ODIR5K
from shadowmetric.app.data.datasets.sop import SOP
from shadowmetric.app.data.datasets.tiny_imagenet import TINY_IMAGENET
from shadowmetric.app.data.own.csv_file import read_csv
from shadowmetric.app.data.own.folder import read_folder
from shadowmetric.app.data.own.npz_file import read_npz
from shadowmetric.app.data.root import data_root
from shadowmetric.app.data.zero_shot import by_classes
from shadowmetric.errors import DataMistake

DATASETS: dict[str, Reader] = {
    reader.name: reader
    for reader in (
        GLYPHS,
        DIGITS,
        MNIST,
        FASHION_MNIST,
        CIFAR10,
        CIFAR100,
        TINY_IMAGENET,
        CUB200,
        CARS196,
        SOP,
        INSHOP,
        HAM10000,
        ODIR5K,
    )
}
OWN = {"folder": read_folder, "csv": read_csv, "npz": read_npz}  # by what stands before the colon
SPLITS = ("official", "classes")


def is_here(reader: Reader, root: Path) -> bool:
    """Return whether something of a dataset lies below a data root; whether it is whole, its reader knows."""
    return not reader.folder or next(folders_of(reader, root), None) is not None


def open_dataset(
    data: str, root: Path | None = None, *, allow_partial: bool = False, split: str = "official"
) -> Dataset:
    """Return a dataset by its name or place; split="classes" makes it a zero-shot one."""
    if split not in SPLITS:
        raise DataMistake(f"the split is {split!r}; choose one of {', '.join(SPLITS)}.")
    if is_own(data):
        kind, _, path = data.partition(":")
        dataset = OWN[kind](Path(path).expanduser())
    else:
        dataset = find_reader(data).read(data_root(root), allow_partial)
    return by_classes(dataset) if split == "classes" else dataset


def is_own(data: str) -> bool:
    """Return whether somebody's own images are meant, and no named dataset."""
    return data.partition(":")[0] in OWN and ":" in data


def find_reader(name: str) -> Reader:
    """Return what is known of a named dataset, or name the nearest names."""
    spelt = name.lower().replace("-", "_")
    if spelt in DATASETS:
        return DATASETS[spelt]
    raise DataMistake(f"there is no dataset {name!r}; {_remedy(name, spelt)}")


def _remedy(name: str, spelt: str) -> str:
    """Return what somebody may have meant."""
    path = Path(name)
    kind = "folder" if path.is_dir() else path.suffix.removeprefix(".")
    if kind in OWN and path.exists():
        return f"for your own images write {kind}:{name}."
    near = difflib.get_close_matches(spelt, DATASETS, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"choose one of {', '.join(DATASETS)}, or folder:PATH, csv:FILE, npz:FILE."
