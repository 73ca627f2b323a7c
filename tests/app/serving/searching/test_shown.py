"""Only images below the indexed folder are shown, whatever an index says."""

import os

import pytest
from image_folders import HOSTILE, write_image

from shadowmetric.app.serving.searching import shown
from shadowmetric.app.serving.searching.shown import image_file, small_image


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "photos"
    write_image(folder / "a" / "1.png", 0, 40, 20)
    write_image(tmp_path / "secret.png", 1)
    write_image(tmp_path / "photos-of-others" / "secret.png", 1)
    (folder / "inside.png").symlink_to("a/1.png")
    (folder / "outside.png").symlink_to("../secret.png")
    (folder / "out").symlink_to("..")
    (folder / "loop.png").symlink_to("loop.png")
    return folder


def test_images_of_the_folder_are_found(root):
    assert image_file(str(root), "a/1.png") == root / "a" / "1.png"
    assert image_file(str(root), "inside.png") == root / "a" / "1.png"
    assert image_file(str(root), "a/../a/1.png") == root / "a" / "1.png"


OUTSIDE = [
    "../secret.png",
    "a/../../secret.png",
    "outside.png",
    "out/secret.png",
    "../photos-of-others/secret.png",
    "/etc/passwd",
    "{root}/../secret.png",
    "loop.png",
    "missing.png",
    "a",
    "",
    ".",
    "..",
    "a\0.png",
    "a/1.png\0",
    "x" * 5000,
    "a/" * 3000,
    "a/1.png/",
    "a/1.png/more",
    "\udcff",
    "..\\secret.png",
    "%2e%2e/secret.png",
]


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: repr(path[:30]))
def test_nothing_else_is(root, path):
    path = path.format(root=root) if "{root}" in path else path
    found = image_file(str(root), path)
    assert found is None or found == root / "a" / "1.png"
    if path != "a/1.png/":
        assert found is None
        assert small_image(str(root), path, 16) is None


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_names(root, name):
    write_image(root / name, 2)
    assert image_file(str(root), name) == root / name


def test_without_a_root_nothing_is_shown(root, monkeypatch):
    monkeypatch.chdir(root)
    assert image_file("", "a/1.png") is None
    assert image_file(str(root.parent / "gone"), "a/1.png") is None
    assert image_file("a\0b", "a/1.png") is None


def test_a_pipe_is_not_opened(root):
    os.mkfifo(root / "pipe.png")
    assert small_image(str(root), "pipe.png", 16) is None


def test_a_small_image_fits(root):
    small = small_image(str(root), "a/1.png", 16)
    assert small is not None
    assert small.size == (16, 8)
    large = small_image(str(root), "a/1.png", 500)
    assert large is not None
    assert large.size == (40, 20)


def test_what_cannot_be_shown_is_none(root, monkeypatch):
    (root / "bad.png").write_bytes(b"text")
    assert small_image(str(root), "bad.png", 16) is None
    monkeypatch.setattr(shown, "MOST_PIXELS", 799)
    assert small_image(str(root), "a/1.png", 16) is None
