"""A folder per class: what is found, in which order, what is passed over, and what is refused."""

import os

import pytest
from PIL import Image

from shadowmetric.app.data.dataset import STANDARD, ZERO_SHOT
from shadowmetric.app.data.own.folder import list_classes, read_folder
from shadowmetric.errors import DataMistake


def image(path, color=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4), (color, 0, 0)).save(path)


def files(dataset):
    return sorted([*dataset.train.images.paths, *dataset.test.images.paths])


@pytest.fixture
def folder(tmp_path):
    for name in ("b/2.png", "b/10.png", "b/deep/er/1.JPG", "a/x.jpeg", "a/y.png"):
        image(tmp_path / name)
    return tmp_path


def test_images_at_any_depth_in_the_same_order_everywhere(folder, monkeypatch):
    expected = {"a": ["a/x.jpeg", "a/y.png"], "b": ["b/10.png", "b/2.png", "b/deep/er/1.JPG"]}
    assert list(list_classes(folder).images.items()) == list(expected.items())
    listdir, walk = os.listdir, os.walk
    monkeypatch.setattr(os, "listdir", lambda path: listdir(path)[::-1])
    monkeypatch.setattr(os, "walk", lambda path, **_: [(here, down, names[::-1]) for here, down, names in walk(path)])
    assert list(list_classes(folder).images.items()) == list(expected.items())


def test_without_a_split(folder):
    found = read_folder(folder)
    assert found.kind == STANDARD
    assert found.classes == ("a", "b")
    assert len(found.train) == 3
    assert found.test.images.read(0).shape == (3, 4, 4)
    assert "one image of each class" in found.notes[0]


def test_train_and_test_are_the_split(tmp_path):
    for name in ("train/a/1.png", "train/b/1.png", "test/b/1.png", "other/c/1.png"):
        image(tmp_path / name)
    found = read_folder(tmp_path)
    assert (found.train.images.paths, found.test.images.paths) == (["train/a/1.png", "train/b/1.png"], ["test/b/1.png"])
    assert found.test.labels.tolist() == [1]
    assert found.kind == STANDARD
    (tmp_path / "test/b").rename(tmp_path / "test/c")
    assert read_folder(tmp_path).kind == ZERO_SHOT


def test_a_lone_train_folder_is_a_class_like_others(tmp_path):
    for name in ("train/1.png", "train/2.png", "ship/1.png"):
        image(tmp_path / name)
    assert read_folder(tmp_path).classes == ("ship", "train")


def test_hidden_files_and_others_are_passed_over(folder):
    for name in (".hidden/1.png", "a/.thumb.png", "a/.deep/1.png"):
        image(folder / name)
    (folder / "a/labels.txt").write_text("x")
    found = read_folder(folder)
    assert len(files(found)) == 5
    assert "1 file that is no image by its ending was passed over." in found.notes


def test_links_that_lead_out_are_not_followed(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    image(outside / "secret.png")
    (folder / "a/out.png").symlink_to(outside / "secret.png")
    (folder / "a/in.png").symlink_to(folder / "b/2.png")
    (folder / "a/folder").symlink_to(outside, target_is_directory=True)
    (folder / "c").symlink_to(outside, target_is_directory=True)
    found = read_folder(folder)
    assert files(found) == ["a/in.png", "a/x.jpeg", "a/y.png", "b/10.png", "b/2.png", "b/deep/er/1.JPG"]
    assert found.findings == ("3 links were not followed: a/folder, a/out.png, c.",)
    assert set(found.findings) <= set(found.notes)


def test_whatever_may_have_been_meant_as_data_is_named(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    image(outside / "1.png")
    (folder / "linked").symlink_to(outside, target_is_directory=True)
    for name in ("c", "d/deep", ".hidden"):
        (folder / name).mkdir(parents=True)
    (folder / "d" / "readme.txt").write_text("no image")
    for name in ("lone.png", "other.JPG", ".thumb.png"):
        image(folder / name)
    found = read_folder(folder)
    assert found.classes == ("a", "b")
    assert found.findings == (
        "1 link was not followed: linked.",
        "2 class folders have no images: c, d.",
        "2 images outside any class folder were not read: lone.png, other.JPG.",
    )


def test_of_both_parts_too(tmp_path):
    for name in ("train/a/1.png", "train/b/1.png", "test/b/1.png", "test/stray.png", "top.png", "val/a/1.png"):
        image(tmp_path / name)
    (tmp_path / "train/c").mkdir()
    (tmp_path / "test/a").symlink_to(tmp_path / "train/a", target_is_directory=True)
    assert read_folder(tmp_path).findings == (
        "1 link was not followed: test/a.",
        "1 class folder has no images: train/c.",
        "1 folder beside train and test was not read: val.",
        "2 images outside any class folder were not read: test/stray.png, top.png.",
    )


def test_of_many_the_first_are_named(folder):
    for number in range(7):
        (folder / f"empty {number}").mkdir()
    wanted = "7 class folders have no images: empty 0, empty 1, empty 2, empty 3, empty 4 and 2 more."
    assert read_folder(folder).findings == (wanted,)


def test_what_is_refused(tmp_path):
    with pytest.raises(DataMistake, match="does not exist; give a folder"):
        read_folder(tmp_path / "nothing")
    with pytest.raises(DataMistake, match="is empty; put the images"):
        read_folder(tmp_path)
    (tmp_path / "words.txt").touch()
    with pytest.raises(DataMistake, match="has neither folders nor images; put"):
        read_folder(tmp_path)
    image(tmp_path / "1.png")
    with pytest.raises(DataMistake, match="has 1 image outside of folders; put"):
        read_folder(tmp_path)
    (tmp_path / "a").mkdir()
    with pytest.raises(DataMistake, match="has 1 folder without images and 1 image outside of folders; put"):
        read_folder(tmp_path)
    image(tmp_path / "a/1.png")
    with pytest.raises(DataMistake, match=r"has 1 image of 1 class \(a\)"):
        read_folder(tmp_path)
    with pytest.raises(DataMistake, match="is a file"):
        read_folder(tmp_path / "1.png")
