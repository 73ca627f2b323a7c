"""CARS196: cars of 196 makes, models and years.

    stanford_cars/cars_annos.mat    annotations: relative_im_path, class, a box, test; and class_names
    stanford_cars/car_ims/000001.jpg ...

or the later release, as torchvision and Kaggle have it, read where there is no car_ims/ and there is cars_train/:

    stanford_cars/devkit/cars_train_annos.mat           annotations: fname in cars_train/, class, a box
    stanford_cars/cars_test_annos_withlabels.mat        the same for cars_test/; it may be in devkit/
    stanford_cars/devkit/cars_meta.mat                  class_names
    stanford_cars/cars_train/00001.jpg ..., stanford_cars/cars_test/00001.jpg ...

Kaggle's cars_train/cars_train/, cars_test/cars_test/ and car_devkit/devkit/ are read too. Without either, folders of
classes by their names: car_data/car_data/{train,test}/, car_data/{train,test}/, {train,test}/ or images/.

Split, of cars unseen in training: classes 1 to 98 train (8,054 images), classes 99 to 196 test (8,131). The parts that
the files call train and test share all classes; they are for classification, and not used here. By name, the first 98
classes are those up to LAST_TRAINING_NAME, although the official numbers are not in the order of names.

Krause, Stark, Deng and Fei-Fei, 3D Object Representations for Fine-Grained Categorization, 2013. From Stanford,
car_ims.tgz and cars_annos.mat, or a mirror; for research, non-commercial.
"""

from pathlib import Path
from typing import Any

import numpy as np

from shadowmetric.app.data.dataset import ZERO_SHOT, Dataset, Reader
from shadowmetric.app.data.datasets.formats.class_folders import TEST, TRAIN, class_rows
from shadowmetric.app.data.datasets.formats.layouts import Layout, first_there, read_copy
from shadowmetric.app.data.datasets.formats.lists import in_two, load, parse_each
from shadowmetric.errors import DataMistake

LAST_TRAINING_CLASS = 98
LAST_TRAINING_NAME = "Eagle Talon Hatchback 1998"
ALL, META, TRAIN_LIST = "cars_annos.mat", "cars_meta.mat", "cars_train_annos.mat"
TEST_LISTS = ("cars_test_annos_withlabels.mat", "devkit/cars_test_annos_withlabels.mat")
DEVKITS = ("devkit", "car_devkit/devkit", "car_devkit")
PLACES = tuple(f"{outer}{part}" for outer in ("car_data/car_data/", "car_data/", "") for part in (*TRAIN, *TEST))


def read_cars196(root: Path, allow_partial: bool) -> Dataset:
    """Return the cars below a data root."""
    return read_copy(CARS196, root, LAYOUTS, allow_partial)


def parse_one_list(reader: Reader, root: Path) -> Dataset:
    """Return what the one list names, whether the files are there or not."""
    classes = _classes(reader, root, ALL)
    return by_number(reader, root, _rows(reader, root, ALL, "relative_im_path", "", classes), classes)


def parse_devkit(reader: Reader, root: Path) -> Dataset:
    """Return what the two lists of the later release name, whether the files are there or not."""
    folder = root / reader.folder
    devkit = first_there(folder, DEVKITS)
    classes = _classes(reader, root, f"{devkit}/{META}")
    lists = {"cars_train": f"{devkit}/{TRAIN_LIST}", "cars_test": first_there(folder, TEST_LISTS)}
    rows = []
    for images, name in lists.items():
        inside = f"{images}/{images}" if (folder / images / images).is_dir() else images
        rows += _rows(reader, root, name, "fname", f"{inside}/", classes)
    return by_number(reader, root, rows, classes)


def parse_folders(reader: Reader, root: Path) -> Dataset:
    """Return the images in folders that are named as their classes."""
    folder = root / reader.folder
    rows = class_rows(folder, [place for place in PLACES if (folder / place).is_dir()]) or class_rows(
        folder, ["images"]
    )
    classes = {name: name for name in sorted({name for _, name in rows})}
    train, test = ([row for row in rows if (row[1] <= LAST_TRAINING_NAME) == first] for first in (True, False))
    return in_two(reader, folder, train, test, classes)


def by_number(reader: Reader, root: Path, rows: list[tuple[str, int]], classes: dict[int, str]) -> Dataset:
    """Return the dataset of (path, class) rows, its first classes in training and the others in the test."""
    train = [row for row in rows if row[1] <= LAST_TRAINING_CLASS]
    test = [row for row in rows if row[1] > LAST_TRAINING_CLASS]
    return in_two(reader, root / reader.folder, train, test, classes)


def _classes(reader: Reader, root: Path, name: str) -> dict[int, str]:
    """Return the names by class, from 1."""
    names = load(reader, root, name, lambda path: _variable(path, "class_names"), "MATLAB's list of class names")
    return {number: str(title) for number, title in enumerate(names, 1)}


def _rows(
    reader: Reader, root: Path, name: str, path_field: str, inside: str, classes: dict[int, str]
) -> list[tuple[str, int]]:
    """Return (path, class) of each annotation in a file."""

    def pairs(path: Path) -> list[tuple[Any, Any]]:
        entries = _variable(path, "annotations")
        return list(zip(entries[path_field].tolist(), entries["class"].tolist(), strict=True))

    def row(entry: tuple[Any, Any]) -> tuple[str, int]:
        path, known = entry
        if known not in classes:
            raise ValueError(known)
        return f"{inside}{path}", int(known)

    entries = load(reader, root, name, pairs, f"MATLAB's annotations with {path_field} and class")
    expected = f"a path and a class from 1 to {len(classes)}"
    return parse_each(root / reader.folder / name, enumerate(entries, 1), row, expected, "annotation")


def _variable(path: Path, name: str) -> np.ndarray:
    try:
        from scipy.io import loadmat
    except ImportError:
        raise DataMistake(
            "the labels of CARS196 are MATLAB files, and scipy is not installed; run `pip install "
            "'shadowmetric[datasets]'`."
        ) from None

    return np.atleast_1d(loadmat(path, squeeze_me=True, variable_names=[name])[name])


LAYOUTS = (
    Layout("car_ims and cars_annos.mat", ("car_ims",), parse_one_list),
    Layout("cars_train, cars_test and devkit", ("cars_train", "cars_test"), parse_devkit),
    Layout("a folder per class", (*PLACES, "images"), parse_folders),
)
CARS196 = Reader(
    name="cars196",
    title="CARS196",
    folder="stanford_cars",
    kind=ZERO_SHOT,
    images={"train": 8_054, "test": 8_131},
    classes={"train": 98, "test": 98},
    source="https://ai.stanford.edu/~jkrause/cars/car_dataset.html or a mirror",
    terms="research, non-commercial",
    read=read_cars196,
    archives=("car_ims.tgz", ALL),
    other_folders=("cars196", "cars", "car196", "stanford_cars_dataset", "stanford-car-dataset-by-classes-folder"),
)
