"""Stanford Online Products: two lists, two sets of things."""

import pytest
from dataset_trees import (
    change_line,
    hold_to_counts,
    hold_to_files,
    hold_to_places,
    hold_to_text,
    image,
    move,
    refusal,
    rows_of,
    text,
)

from shadowmetric.app.data.datasets import sop
from shadowmetric.app.data.datasets.sop import SOP

HEADER = "image_id class_id super_class_id path"
TRAIN = ["1 1 1 bicycle_final/11_0.JPG", "2 1 1 bicycle_final/11_1.JPG", "3 9 2 cabinet_final/12 a.JPG"]
TEST = ["4 12 1 bicycle_final/13_0.JPG", "5 10 12 toaster_final/é_0.JPG"]


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "Stanford_Online_Products"
    text(folder / "Ebay_train.txt", HEADER, *TRAIN)
    text(folder / "Ebay_test.txt", HEADER, *TEST)
    for line in TRAIN + TEST:
        image(folder / line.split(maxsplit=3)[3])
    return tmp_path


def test_each_list_is_a_part(root):
    dataset = SOP.read(root, True)
    assert rows_of(dataset) == {
        "train": [
            ("bicycle_final/11_0.JPG", "bicycle 1"),
            ("bicycle_final/11_1.JPG", "bicycle 1"),
            ("cabinet_final/12 a.JPG", "cabinet 9"),
        ],
        "test": [("bicycle_final/13_0.JPG", "bicycle 12"), ("toaster_final/é_0.JPG", "toaster 10")],
    }
    assert dataset.kind == "zero_shot"
    assert not set(dataset.train.labels) & set(dataset.test.labels)
    assert dataset.classes == ("bicycle 1", "cabinet 9", "toaster 10", "bicycle 12")


def test_counts(root, monkeypatch):
    hold_to_counts(monkeypatch, sop, "SOP", root)


def test_files(root):
    hold_to_files(SOP, root, "cabinet_final/12 a.JPG")


def test_lists(root):
    hold_to_text(SOP, root, "Ebay_train.txt", "Ebay_test.txt")


@pytest.mark.parametrize("line", ["2 1 bicycle_final/11_1.JPG", "2 one 1 bicycle_final/11_1.JPG"])
def test_a_line_that_is_wrong(root, line):
    path = root / "Stanford_Online_Products" / "Ebay_train.txt"
    change_line(path, 3, line)
    assert refusal(SOP, root, True) == f"{path}, line 3, is {line!r}; expected `{HEADER}`."


def test_places(root):
    hold_to_places(SOP, root)


def test_lists_and_images_in_folders_of_their_own(root):
    before = rows_of(SOP.read(root, True))
    folder = root / "Stanford_Online_Products"
    for path in list(folder.iterdir()):
        move(folder, path.name, f"{'Info_Files' if path.suffix == '.txt' else 'images'}/{path.name}")
    assert rows_of(SOP.read(root, True)) == before
