"""CARS196: MATLAB files in both layouts, and classes up to 98 against the others."""

import sys

import numpy as np
import pytest
from dataset_trees import hold_to_counts, hold_to_files, hold_to_places, image, labeled, move, refusal, rows_of, text
from scipy.io import savemat

from shadowmetric.app.data.datasets import cars196
from shadowmetric.app.data.datasets.cars196 import CARS196
from shadowmetric.errors import DataMistake

NAMES = [f"Make {number}" for number in range(1, 197)]
CARS = [
    ("000001.jpg", 1, 0),
    ("000002.jpg", 98, 1),
    ("000003.jpg", 99, 0),
    ("000004.jpg", 196, 1),
    ("000005.jpg", 1, 1),
]


def annotations(path, rows, fields):
    """Write rows as MATLAB does: a (1, rows) struct array, a box beside what is asked for."""
    kind = [(name, object) for name in ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", *fields)]
    cells = [(np.uint8(1), np.uint8(2), np.uint16(300), np.uint16(400), *row) for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"annotations": np.array([cells], dtype=kind)}
    if path.name == "cars_annos.mat":
        content["class_names"] = np.array([NAMES], dtype=object)
    savemat(path, content)


@pytest.fixture
def root(tmp_path):
    """Return a data root with the first layout."""
    folder = tmp_path / "stanford_cars"
    rows = [(f"car_ims/{name}", np.uint8(known), np.uint8(test)) for name, known, test in CARS]
    annotations(folder / "cars_annos.mat", rows, ("relative_im_path", "class", "test"))
    for name, _, _ in CARS:
        image(folder / "car_ims" / name)
    return tmp_path


@pytest.fixture
def later_root(tmp_path):
    """Return a data root with the later layout, in which the two folders use the same names."""
    folder = tmp_path / "later" / "stanford_cars"
    train = [("00001.jpg", np.uint8(99)), ("00002.jpg", np.uint8(2))]
    test = [("00001.jpg", np.uint8(2))]
    for path, rows in (("devkit/cars_train_annos.mat", train), ("cars_test_annos_withlabels.mat", test)):
        annotations(folder / path, [(known, name) for name, known in rows], ("class", "fname"))
    savemat(folder / "devkit" / "cars_meta.mat", {"class_names": np.array([NAMES], dtype=object)})
    for path in ("cars_train/00001.jpg", "cars_train/00002.jpg", "cars_test/00001.jpg"):
        image(folder / path)
    return folder.parent


def test_classes_up_to_98_train_and_the_others_test(root):
    dataset = CARS196.read(root, True)
    assert rows_of(dataset) == {
        "train": [
            ("car_ims/000001.jpg", "Make 1"),
            ("car_ims/000002.jpg", "Make 98"),
            ("car_ims/000005.jpg", "Make 1"),
        ],
        "test": [("car_ims/000003.jpg", "Make 99"), ("car_ims/000004.jpg", "Make 196")],
    }
    assert dataset.kind == "zero_shot"
    assert not set(dataset.train.labels) & set(dataset.test.labels)
    assert dataset.classes == tuple(NAMES)


def test_the_later_layout_pools_its_two_folders(later_root):
    assert rows_of(CARS196.read(later_root, True)) == {
        "train": [("cars_train/00002.jpg", "Make 2"), ("cars_test/00001.jpg", "Make 2")],
        "test": [("cars_train/00001.jpg", "Make 99")],
    }


def test_the_first_layout_goes_before_the_later_one(root, later_root):
    (later_root / "stanford_cars" / "devkit").rename(root / "stanford_cars" / "devkit")
    assert rows_of(CARS196.read(root, True))["train"][0] == ("car_ims/000001.jpg", "Make 1")


@pytest.mark.parametrize("name", ["devkit/cars_meta.mat", "cars_test_annos_withlabels.mat"])
def test_a_list_of_the_later_layout_that_is_missing(later_root, name):
    (later_root / "stanford_cars" / name).unlink()
    assert f"stanford_cars/{name} is not there" in refusal(CARS196, later_root, True)


def test_no_list_at_all(root):
    (root / "stanford_cars" / "cars_annos.mat").unlink()
    assert "cars196: stanford_cars/cars_annos.mat is not there" in refusal(CARS196, root, True)


def test_counts(root, monkeypatch):
    hold_to_counts(monkeypatch, cars196, "CARS196", root)


def test_files(root):
    hold_to_files(CARS196, root, "car_ims/000004.jpg")


def test_a_class_that_there_is_not(root):
    path = root / "stanford_cars" / "cars_annos.mat"
    rows = [("car_ims/000001.jpg", np.uint8(1)), ("car_ims/000002.jpg", np.uint8(197))]
    annotations(path, rows, ("relative_im_path", "class"))
    sentence = refusal(CARS196, root, True)
    assert sentence.startswith(f"{path}, annotation 2, is ('car_ims/000002.jpg', 197); expected ")
    assert "a class from 1 to 196" in sentence


def test_a_file_that_is_no_list(root):
    path = root / "stanford_cars" / "cars_annos.mat"
    annotations(path, [("car_ims/000001.jpg",)], ("relative_im_path",))
    assert f"{path} cannot be read as MATLAB's annotations with relative_im_path and class" in refusal(CARS196, root)
    text(path, "<html>not found</html>" * 20)
    assert f"{path} cannot be read as MATLAB's list of class names" in refusal(CARS196, root)


def test_without_scipy_the_extra_is_named(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(DataMistake, match=r"run `pip install 'shadowmetric\[datasets\]'`"):
        CARS196.read(root, False)


def test_places(root):
    hold_to_places(CARS196, root)


def test_where_people_have_the_later_release(later_root):
    hold_to_places(CARS196, later_root)
    before = labeled(CARS196.read(later_root, True))
    folder = later_root / "stanford_cars"
    for part in ("cars_train", "cars_test"):  # as Kaggle unpacks it
        move(folder, part, "away")
        move(folder, "away", f"{part}/{part}")
    move(folder, "devkit", "car_devkit/devkit")
    assert labeled(CARS196.read(later_root, True)) == before


def test_the_images_decide_which_list_is_read(root, later_root):
    """Many people have cars_annos.mat beside the later release, whose images it does not name."""
    move(root, "stanford_cars/cars_annos.mat", "later/stanford_cars/cars_annos.mat")
    assert [path for path, _ in rows_of(CARS196.read(later_root, True))["test"]] == ["cars_train/00001.jpg"]


@pytest.mark.parametrize("place", ["car_data/car_data/{}", "car_data/{}", "{}", "images"])
def test_folders_that_are_named_as_classes(tmp_path, place):
    names = [
        "Eagle Talon Hatchback 1998",
        "FIAT 500 Abarth 2012",
        "AM General Hummer SUV 2000",
        "Ram C-V Cargo Van 2012",
    ]
    for number, name in enumerate(names):
        image(tmp_path / "stanford_cars" / place.format("test" if number % 2 else "train") / name / f"{number}.jpg")
    assert labeled(CARS196.read(tmp_path, True)) == {
        "train": [("0.jpg", names[0]), ("2.jpg", names[2])],
        "test": [("1.jpg", names[1]), ("3.jpg", names[3])],
    }
