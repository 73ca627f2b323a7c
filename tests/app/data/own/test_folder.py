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
    assert "1 files that are no images by their endings were passed over." in found.notes


def test_links_that_lead_out_are_not_followed(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    image(outside / "secret.png")
    (folder / "a/out.png").symlink_to(outside / "secret.png")
    (folder / "a/in.png").symlink_to(folder / "b/2.png")
    (folder / "a/folder").symlink_to(outside, target_is_directory=True)
    (folder / "c").symlink_to(outside, target_is_directory=True)
    found = read_folder(folder)
    assert files(found) == ["a/in.png", "a/x.jpeg", "a/y.png", "b/10.png", "b/2.png", "b/deep/er/1.JPG"]
    assert "3 links were not followed." in found.notes


def test_what_is_refused(tmp_path):
    with pytest.raises(DataMistake, match="does not exist; give a folder"):
        read_folder(tmp_path / "nothing")
    with pytest.raises(DataMistake, match="is empty; put the images"):
        read_folder(tmp_path)
    (tmp_path / "a").mkdir()
    image(tmp_path / "1.png")
    with pytest.raises(DataMistake, match="has 1 folders without images and 1 images outside of folders"):
        read_folder(tmp_path)
    image(tmp_path / "a/1.png")
    with pytest.raises(DataMistake, match=r"has 1 images of 1 class \(a\)"):
        read_folder(tmp_path)
    with pytest.raises(DataMistake, match="is a file"):
        read_folder(tmp_path / "1.png")
