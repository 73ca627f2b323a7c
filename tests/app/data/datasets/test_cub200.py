"""CUB-200-2011: its three lists, and classes up to 100 against the others."""

import pytest
from dataset_trees import (
    change_line,
    hold_to_counts,
    hold_to_files,
    hold_to_places,
    hold_to_text,
    image,
    labeled,
    move,
    refusal,
    rows_of,
    text,
)

from shadowmetric.app.data.datasets import cub200
from shadowmetric.app.data.datasets.cub200 import CUB200

CLASSES = {1: "001.Albatross", 100: "100.Brown_Pelican", 101: "101.White_Pelican", 200: "200.Yellowthroat"}
IMAGES = [(4, 1, "a.jpg"), (2, 200, "b c.jpg"), (3, 101, "é.jpg"), (1, 100, "d.jpg"), (5, 1, "e.jpg")]


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "CUB_200_2011"
    text(folder / "classes.txt", *(f"{number} {name}" for number, name in reversed(CLASSES.items())))
    text(folder / "images.txt", *(f"{number} {CLASSES[known]}/{name}" for number, known, name in IMAGES))
    text(folder / "image_class_labels.txt", *(f"{number} {known}" for number, known, _ in sorted(IMAGES)))
    text(folder / "train_test_split.txt", *(f"{number} {number % 2}" for number, _, _ in IMAGES))
    for _, known, name in IMAGES:
        image(folder / "images" / CLASSES[known] / name)
    return tmp_path


def test_classes_up_to_100_train_and_the_others_test(root):
    dataset = CUB200.read(root, True)
    assert rows_of(dataset) == {
        "train": [
            ("images/001.Albatross/a.jpg", "001.Albatross"),
            ("images/100.Brown_Pelican/d.jpg", "100.Brown_Pelican"),
            ("images/001.Albatross/e.jpg", "001.Albatross"),
        ],
        "test": [
            ("images/200.Yellowthroat/b c.jpg", "200.Yellowthroat"),
            ("images/101.White_Pelican/é.jpg", "101.White_Pelican"),
        ],
    }
    assert dataset.kind == "zero_shot"
    assert not set(dataset.train.labels) & set(dataset.test.labels)
    assert dataset.classes == tuple(CLASSES.values())


def test_the_classification_split_is_not_read(root):
    before = rows_of(CUB200.read(root, True))
    (root / "CUB_200_2011" / "train_test_split.txt").unlink()
    assert rows_of(CUB200.read(root, True)) == before


def test_counts(root, monkeypatch):
    hold_to_counts(monkeypatch, cub200, "CUB200", root)


def test_files(root):
    hold_to_files(CUB200, root, "images/200.Yellowthroat/b c.jpg")


def test_lists(root):
    hold_to_text(CUB200, root, "classes.txt", "images.txt", "image_class_labels.txt")


@pytest.mark.parametrize(
    ("name", "number", "line", "expected"),
    [
        ("classes.txt", 2, "101", "`CLASS NAME`"),
        ("classes.txt", 1, "one 001.Albatross", "`CLASS NAME`"),
        ("images.txt", 2, "2", "`NUMBER PATH`"),
        ("images.txt", 5, "6 x.jpg", "a number of image_class_labels.txt"),
        ("image_class_labels.txt", 4, "4 1 1", "`NUMBER CLASS`"),
        ("image_class_labels.txt", 4, "4 7", "a class of classes.txt"),
    ],
)
def test_a_line_that_is_wrong(root, name, number, line, expected):
    path = root / "CUB_200_2011" / name
    change_line(path, number, line)
    sentence = refusal(CUB200, root, True)
    assert sentence.startswith(f"{path}, line {number}, is {line!r}; expected ")
    assert expected in sentence


@pytest.mark.parametrize("name", ["classes.txt", "image_class_labels.txt"])
def test_a_number_that_comes_twice_is_refused(root, name):
    path = root / "CUB_200_2011" / name
    path.write_text(path.read_text() + path.read_text().splitlines()[0] + "\n")
    assert refusal(CUB200, root, True).startswith(f"{path} has the number ")


def test_places(root):
    hold_to_places(CUB200, root)


@pytest.mark.parametrize("inside", ["images", ".", "train"])
def test_folders_of_classes_without_lists(root, inside):
    before = labeled(CUB200.read(root, True))
    folder = root / "CUB_200_2011"
    for name in ("classes.txt", "images.txt", "image_class_labels.txt"):
        (folder / name).unlink()
    (folder / "images").rename(folder / "pool")
    for place, path in enumerate(sorted((folder / "pool").iterdir())):
        other = "test" if inside == "train" and place % 2 else inside  # the parts of classification are pooled
        (folder / other).mkdir(exist_ok=True)
        path.rename(folder / other / path.name)
    if inside == ".":
        move(folder, CLASSES[1], "001.Black_footed_Albatross")
        before["train"] = sorted(
            (name, known.replace(CLASSES[1], "001.Black_footed_Albatross")) for name, known in before["train"]
        )
    dataset = CUB200.read(root, True)
    assert labeled(dataset) == before
    assert "Read from CUB_200_2011: a folder per class." in dataset.notes


def test_a_folder_that_is_no_class(root):
    folder = root / "CUB_200_2011"
    for name in ("classes.txt", "images.txt", "image_class_labels.txt"):
        (folder / name).unlink()
    move(folder, "images/001.Albatross", "images/Albatross")
    assert "expected an image in a folder of a class, such as 001.Black_footed_Albatross" in refusal(CUB200, root, True)
