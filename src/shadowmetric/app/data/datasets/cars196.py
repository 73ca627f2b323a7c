"""CARS196: cars of 196 makes, models and years.

    stanford_cars/cars_annos.mat    annotations: relative_im_path, class, a box, test; and class_names
    stanford_cars/car_ims/000001.jpg ...

Where cars_annos.mat is absent, the layout of the later release, which torchvision uses, is read instead:

    stanford_cars/devkit/cars_train_annos.mat           annotations: fname in cars_train/, class, a box
    stanford_cars/cars_test_annos_withlabels.mat        the same for cars_test/
    stanford_cars/devkit/cars_meta.mat                  class_names
    stanford_cars/cars_train/00001.jpg ..., stanford_cars/cars_test/00001.jpg ...

Split, of cars unseen in training: classes 1 to 98 train (8,054 images), classes 99 to 196 test (8,131). The parts that
the files call train and test share all classes; they are for classification, and not used here.

Krause, Stark, Deng and Fei-Fei, 3D Object Representations for Fine-Grained Categorization, 2013. From Stanford,
car_ims.tgz and cars_annos.mat, or a mirror; for research, non-commercial.
"""

from pathlib import Path
from typing import Any

import numpy as np

from shadowmetric.app.data.dataset import ZERO_SHOT, Dataset, Reader, check_counts
from shadowmetric.app.data.datasets.lists import in_two, load, on_disk, parse_each
from shadowmetric.errors import DataMistake

LAST_TRAINING_CLASS = 98
ALL, TRAIN, TEST = "cars_annos.mat", "devkit/cars_train_annos.mat", "cars_test_annos_withlabels.mat"


def read_cars196(root: Path, allow_partial: bool) -> Dataset:
    """Return the cars below a data root."""
    return check_counts(CARS196, on_disk(CARS196, parse_cars196(root), allow_partial), allow_partial)


def parse_cars196(root: Path) -> Dataset:
    """Return what the lists name, whether the files are there or not."""
    folder = root / CARS196.folder
    if (folder / ALL).is_file() or not (folder / TRAIN).is_file():
        classes = _classes(root, ALL)
        rows = _rows(root, ALL, "relative_im_path", "", classes)
    else:
        classes = _classes(root, "devkit/cars_meta.mat")
        rows = _rows(root, TRAIN, "fname", "cars_train/", classes) + _rows(root, TEST, "fname", "cars_test/", classes)
    train = [row for row in rows if row[1] <= LAST_TRAINING_CLASS]
    test = [row for row in rows if row[1] > LAST_TRAINING_CLASS]
    return in_two(CARS196, folder, train, test, classes)


def _classes(root: Path, name: str) -> dict[int, str]:
    """Return the names by class, from 1."""
    names = load(CARS196, root, name, lambda path: _variable(path, "class_names"), "MATLAB's list of class names")
    return {number: str(title) for number, title in enumerate(names, 1)}


def _rows(root: Path, name: str, path_field: str, inside: str, classes: dict[int, str]) -> list[tuple[str, int]]:
    """Return (path, class) of each annotation in a file."""

    def pairs(path: Path) -> list[tuple[Any, Any]]:
        entries = _variable(path, "annotations")
        return list(zip(entries[path_field].tolist(), entries["class"].tolist(), strict=True))

    def row(entry: tuple[Any, Any]) -> tuple[str, int]:
        path, known = entry
        if known not in classes:
            raise ValueError(known)
        return f"{inside}{path}", int(known)

    entries = load(CARS196, root, name, pairs, f"MATLAB's annotations with {path_field} and class")
    expected = f"a path and a class from 1 to {len(classes)}"
    return parse_each(root / CARS196.folder / name, enumerate(entries, 1), row, expected, "annotation")


def _variable(path: Path, name: str) -> np.ndarray:
    try:
        from scipy.io import loadmat
    except ImportError:
        raise DataMistake(
            "the labels of CARS196 are MATLAB files, and scipy is not installed; run `pip install "
            "'shadowmetric[datasets]'`."
        ) from None

    return np.atleast_1d(loadmat(path, squeeze_me=True, variable_names=[name])[name])


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
)
