"""Tiny ImageNet: training folders, a list of test images, gray ones among them."""

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

from shadowmetric.app.data.datasets import tiny_imagenet
from shadowmetric.app.data.datasets.tiny_imagenet import TINY_IMAGENET

CAT, REEL, BARE = "n02124075", "n04067472", "n00000001"


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "tiny-imagenet-200"
    text(folder / "wnids.txt", REEL, CAT, BARE)
    text(folder / "words.txt", f"{CAT}\tEgyptian cat, mau", "n99999999\tnothing of ours", f"{REEL}\treel")
    lines = [f"val_{number}.JPEG\t{wnid}\t0\t32\t44\t62" for number, wnid in enumerate((CAT, REEL, CAT))]
    text(folder / "val" / "val_annotations.txt", *lines)
    for wnid, numbers in ((CAT, (10, 2)), (REEL, (0,)), (BARE, (7,))):
        for number in numbers:
            image(folder / "train" / wnid / "images" / f"{wnid}_{number}.JPEG", mode="L" if number == 2 else "RGB")
        text(folder / "train" / wnid / f"{wnid}_boxes.txt", "a box")
    for number in range(3):
        image(folder / "val" / "images" / f"val_{number}.JPEG", mode="L" if number == 1 else "RGB")
    image(folder / "train" / "n99999999" / "images" / "n99999999_0.JPEG")
    text(folder / "train" / CAT / "images" / "Thumbs.db", "no image")
    return tmp_path


def test_folders_train_and_the_listed_images_test(root):
    dataset = TINY_IMAGENET.read(root, True)
    assert rows_of(dataset) == {
        "train": [
            (f"train/{REEL}/images/{REEL}_0.JPEG", "reel"),
            (f"train/{CAT}/images/{CAT}_2.JPEG", "Egyptian cat, mau"),
            (f"train/{CAT}/images/{CAT}_10.JPEG", "Egyptian cat, mau"),
            (f"train/{BARE}/images/{BARE}_7.JPEG", BARE),
        ],
        "test": [
            ("val/images/val_0.JPEG", "Egyptian cat, mau"),
            ("val/images/val_1.JPEG", "reel"),
            ("val/images/val_2.JPEG", "Egyptian cat, mau"),
        ],
    }
    assert dataset.kind == "standard"


def test_counts_and_gray_images_with_three_channels(root, monkeypatch):
    hold_to_counts(monkeypatch, tiny_imagenet, "TINY_IMAGENET", root)


def test_files(root):
    for wnid in (CAT, REEL, BARE):  # what no list names cannot be missed by name
        for path in (root / "tiny-imagenet-200" / "train" / wnid / "images").glob("*.JPEG"):
            path.unlink()
    hold_to_files(TINY_IMAGENET, root, "val/images/val_1.JPEG")


def test_lists(root):
    hold_to_text(TINY_IMAGENET, root, "wnids.txt", "words.txt", "val/val_annotations.txt")


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("wnids.txt", "n02124075 cat", "one class, such as n02124075"),
        ("words.txt", "n02124075 Egyptian cat", "CLASS, a tab, NAMES"),
        ("val/val_annotations.txt", "val_1.JPEG n04067472 0 0 1 1", "NAME, a tab"),
        ("val/val_annotations.txt", "val_1.JPEG\tn99999999\t0\t0\t1\t1", "a class of wnids.txt"),
    ],
)
def test_a_line_that_is_wrong(root, name, line, expected):
    path = root / "tiny-imagenet-200" / name
    change_line(path, 2, line)
    sentence = refusal(TINY_IMAGENET, root, True)
    assert sentence.startswith(f"{path}, line 2, is {line!r}; expected ")
    assert expected in sentence


def test_places(root):
    hold_to_places(TINY_IMAGENET, root)


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("place", ["val/{}", "val/{}/images", "val/images/{}"])
def test_val_images_that_were_sorted_into_classes(root, place, listed):
    before = labeled(TINY_IMAGENET.read(root, True))
    folder = root / "tiny-imagenet-200"
    for number, wnid in enumerate((CAT, REEL, CAT)):
        move(folder, f"val/images/val_{number}.JPEG", f"{place.format(wnid)}/val_{number}.JPEG")
    if not listed:
        (folder / "val" / "val_annotations.txt").unlink()
    dataset = TINY_IMAGENET.read(root, True)
    assert labeled(dataset) == before
    assert dataset.test.images.read(0).shape == (3, 3, 4)


def test_train_images_without_the_folder_between(root):
    before = labeled(TINY_IMAGENET.read(root, True))
    for wnid in (CAT, REEL, BARE):
        folder = root / "tiny-imagenet-200" / "train" / wnid
        for path in list((folder / "images").glob("*.JPEG")):
            path.rename(folder / path.name)
    assert labeled(TINY_IMAGENET.read(root, True)) == before
