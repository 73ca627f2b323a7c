"""MNIST: 60,000 + 10,000 handwritten digits, 28 × 28, gray. Y. LeCun, C. Cortes, C. J. C. Burges, 1998.

Read from `MNIST/raw` below the data root, four IDX files, gzipped or not, where torchvision puts them; they may be in
`MNIST` or `mnist`, called `train-images.idx3-ubyte`, or each in a folder of its name. Or from Keras' `mnist.npz`
(x_train, y_train, x_test, y_test), in the data root itself too; from tables, `mnist_train.csv` and `mnist_test.csv`
(label, then 784 pixels); or from a folder per class, `mnist/{train,test}/7/*.png`.

A digit in a mirror is not a digit, so these are never mirrored. Memory: 55 MB, all images; a table twice that.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from shadowmetric.app.data.dataset import STANDARD, Dataset, Reader, Split
from shadowmetric.app.data.datasets.downloads import download_with_torchvision
from shadowmetric.app.data.datasets.formats.class_folders import TEST, TRAIN, read_parts
from shadowmetric.app.data.datasets.formats.idx import find_idx, idx_names, read_idx
from shadowmetric.app.data.datasets.formats.layouts import Layout, first_there, read_copy
from shadowmetric.app.data.datasets.formats.pixel_tables import read_table
from shadowmetric.app.data.images import ArrayImages
from shadowmetric.app.data.own.arrays import read_labels
from shadowmetric.app.data.own.npz_file import read_pixels
from shadowmetric.errors import DataMistake

FILES = {"train": "train", "test": "t10k"}  # how the files of each part begin
ARCHIVES = tuple(f"{start}-{end}-ubyte.gz" for start in FILES.values() for end in ("images-idx3", "labels-idx1"))
SIDE = 28


def layouts_of(classes: Sequence[str], *, mirrors: bool, arrays: Sequence[str], table: str) -> tuple[Layout, ...]:
    """Return the layouts of a dataset that comes as MNIST does; arrays and table: names of those files."""
    first = [name for end in ("images-idx3", "labels-idx1") for name in idx_names(f"train-{end}-ubyte")]
    known = {"classes": tuple(classes), "mirrors": mirrors}
    return (
        Layout("IDX files", tuple(first), partial(parse_idx, **known)),
        Layout("arrays of NumPy", tuple(arrays), partial(parse_arrays, names=tuple(arrays), **known)),
        Layout("tables of pixels", (f"{table}_train.csv",), partial(parse_tables, table=table, **known)),
        Layout("a folder per class", (*TRAIN, *TEST), partial(parse_folders, **known)),
    )


def parse_idx(reader: Reader, root: Path, *, classes: tuple[str, ...], mirrors: bool) -> Dataset:
    """Return what the four files hold."""
    folder = root / reader.folder
    train, test = (read_part(reader, root, folder, part, len(classes)) for part in FILES)
    return Dataset(reader.name, STANDARD, train, test, classes, mirrors=mirrors)


def parse_arrays(
    reader: Reader, root: Path, *, names: Sequence[str], classes: tuple[str, ...], mirrors: bool
) -> Dataset:
    """Return what Keras' file holds."""
    path = root / reader.folder / first_there(root / reader.folder, names)
    parts = []
    for part in FILES:
        try:
            images, labels = read_pixels(path, f"x_{part}"), read_labels(path, f"y_{part}")
        except ValueError as error:
            raise DataMistake(str(error)) from None
        if images.shape[1] != 1 or labels.dtype.kind != "i":
            raise DataMistake(f"{path} has images or labels of {part} that are not gray or no numbers; get it again.")
        parts.append(split_of(path, part, images[:, 0], path, labels, len(classes)))
    return Dataset(reader.name, STANDARD, *parts, classes=classes, mirrors=mirrors)


def parse_tables(reader: Reader, root: Path, *, table: str, classes: tuple[str, ...], mirrors: bool) -> Dataset:
    """Return what two tables hold."""
    parts = []
    for part in FILES:
        path = root / reader.folder / f"{table}_{part}.csv"
        if not path.is_file():
            raise reader.missing(root, f"{reader.folder}/{path.name}")
        labels, pixels = read_table(path, SIDE**2)
        parts.append(split_of(path, part, pixels.reshape(-1, SIDE, SIDE), path, labels, len(classes)))
    return Dataset(reader.name, STANDARD, *parts, classes=classes, mirrors=mirrors)


def parse_folders(reader: Reader, root: Path, *, classes: tuple[str, ...], mirrors: bool) -> Dataset:
    """Return the images in folders of classes."""
    return replace(read_parts(reader, root, (1, SIDE), classes), mirrors=mirrors)


def read_part(reader: Reader, root: Path, folder: Path, part: str, classes: int) -> Split:
    """Return one part: its images and their labels."""
    images_path, labels_path = (
        find_idx(folder, f"{FILES[part]}-{end}-ubyte") for end in ("images-idx3", "labels-idx1")
    )
    if images_path is None or labels_path is None:
        what = "images-idx3" if images_path is None else "labels-idx1"
        raise reader.missing(root, f"{reader.folder}/{FILES[part]}-{what}-ubyte")
    return split_of(images_path, part, read_idx(images_path, 3), labels_path, read_idx(labels_path, 1), classes)


def split_of(
    images_path: Path, part: str, images: np.ndarray, labels_path: Path, labels: np.ndarray, classes: int
) -> Split:
    """Return a part of images (images, height, width) with their labels, or refuse what does not fit together."""
    if images.shape[1:] != (SIDE, SIDE):
        raise DataMistake(f"{images_path} has images of {images.shape[1:]}, not of {SIDE} × {SIDE}; get it again.")
    if len(images) != len(labels):
        raise DataMistake(
            f"{images_path} has {len(images):,} images and {labels_path} {len(labels):,} labels; get both again."
        )
    if len(labels) and (wrong := labels[(labels < 0) | (labels >= classes)]).size:
        raise DataMistake(f"{labels_path} has the label {wrong[0]}; there are {classes} classes, so get it again.")
    return Split(ArrayImages(torch.from_numpy(images[:, None]), f"{part} image"), labels.astype(np.int64))


def read_mnist(root: Path, allow_partial: bool = False) -> Dataset:
    """Return MNIST below a data root."""
    return read_copy(MNIST, root, LAYOUTS, allow_partial)


def download(root: Path) -> None:
    """Get it through torchvision, which compares the files with their md5."""
    download_with_torchvision("MNIST", MNIST.folder, root)


LAYOUTS = layouts_of("0123456789", mirrors=False, arrays=("mnist.npz",), table="mnist")
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
    other_folders=("mnist-dataset", "mnist_png", "mnist-in-csv"),
    files=("mnist.npz",),
)
