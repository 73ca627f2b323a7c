"""In-Shop: one list, three parts, and queries that are searched in a gallery of their own."""

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

from shadowmetric.app.data.datasets import inshop
from shadowmetric.app.data.datasets.inshop import INSHOP

ROWS = [
    ("img/WOMEN/Dresses/id_00000002/02_1_front.jpg", "id_00000002", "train"),
    ("img/WOMEN/Dresses/id_00000002/02_2_side.jpg", "id_00000002", "train"),
    ("img/MEN/Tees Tanks/id_00000001/01_1_front.jpg", "id_00000001", "query"),
    ("img/MEN/Tees Tanks/id_00000001/01_3_back.jpg", "id_00000001", "gallery"),
    ("img/WOMEN/Denim/id_00000003/01_1_front.jpg", "id_00000003", "train"),
]


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "In-shop"
    lines = [f"{path:<70} {item} {status:<11}" for path, item, status in ROWS]
    text(folder / "Eval" / "list_eval_partition.txt", "5", "image_name item_id evaluation_status", *lines)
    for path, _, _ in ROWS:
        image(folder / path)
    return tmp_path


def test_queries_are_the_test_part_and_the_gallery_is_its_own(root):
    dataset = INSHOP.read(root, True)
    assert rows_of(dataset) == {
        "train": [ROWS[0][:2], ROWS[1][:2], ROWS[4][:2]],
        "test": [ROWS[2][:2]],
        "gallery": [ROWS[3][:2]],
    }
    assert dataset.kind == "zero_shot"
    assert not set(dataset.train.labels) & set(dataset.test.labels)
    assert dataset.gallery is not None
    assert set(dataset.gallery.labels) == set(dataset.test.labels)
    assert dataset.classes == ("id_00000001", "id_00000002", "id_00000003")


def test_the_archive_may_be_unpacked_in_its_folder(root):
    before = rows_of(INSHOP.read(root, True))
    (root / "In-shop" / "Img").mkdir()
    (root / "In-shop" / "img").rename(root / "In-shop" / "Img" / "img")
    dataset = INSHOP.read(root, True)
    assert rows_of(dataset) == before
    assert dataset.test.images.read(0).shape == (3, 3, 4)


def test_counts(root, monkeypatch):
    hold_to_counts(monkeypatch, inshop, "INSHOP", root)


def test_files(root):
    hold_to_files(INSHOP, root, ROWS[3][0])


def test_lists(root):
    hold_to_text(INSHOP, root, "Eval/list_eval_partition.txt")


@pytest.mark.parametrize("line", ["img/a.jpg id_00000002", "img/a.jpg id_00000002 val"])
def test_a_line_that_is_wrong(root, line):
    path = root / "In-shop" / "Eval" / "list_eval_partition.txt"
    change_line(path, 4, line)
    wanted = f"{path}, line 4, is {line!r}; expected `image_name item_id train|query|gallery`."
    assert refusal(INSHOP, root, True) == wanted


def test_places(root):
    hold_to_places(INSHOP, root)


@pytest.mark.parametrize("place", ["list_eval_partition.txt", "Anno/list_eval_partition.txt"])
@pytest.mark.parametrize("images", ["img_highres", "Img/img_highres", "Img/img"])
def test_where_people_have_the_list_and_the_images(root, place, images):
    before = labeled(INSHOP.read(root, True))
    folder = root / "In-shop"
    move(folder, "Eval/list_eval_partition.txt", place)
    move(folder, "img", images)
    dataset = INSHOP.read(root, True)
    assert labeled(dataset) == before
    assert dataset.train.images.read(0).shape == (3, 3, 4)
