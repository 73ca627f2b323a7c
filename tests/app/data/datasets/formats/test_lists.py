"""Lists and the files that they name: odd names, odd bytes, and how often the disk is asked."""

import os
from dataclasses import replace

import numpy as np
import pytest
from dataset_trees import image, text

from shadowmetric.app.data.datasets.cub200 import CUB200
from shadowmetric.app.data.datasets.formats.lists import are_there, list_images, load, names_in, parse_each, read_list
from shadowmetric.errors import DataMistake

READER = replace(CUB200, name="set", folder="set")
ODD = [
    "a b.jpg",
    "é.jpg",
    "%20#&;'\".jpg",
    "two  spaces.jpg",
    "line\u2028end.jpg",
    "form\x0cfeed.jpg",
    "no-utf8-\udcff.jpg",
]


def test_odd_names_survive_a_list_and_are_found(tmp_path):
    text(tmp_path / "set" / "list.txt", *ODD)
    found = read_list(READER, tmp_path, "list.txt", str, "a name")
    assert found == ODD
    for name in ODD:
        (tmp_path / "set" / name).touch()
    assert are_there(tmp_path / "set", found).all()


def test_lines_are_numbered_as_an_editor_does(tmp_path):
    text(tmp_path / "set" / "list.txt", "header", "", "1", "  ", "x")
    with pytest.raises(DataMistake) as refused:
        read_list(READER, tmp_path, "list.txt", int, "a number", skip=1)
    assert str(refused.value) == f"{tmp_path / 'set' / 'list.txt'}, line 5, is 'x'; expected a number."


def test_a_long_line_is_not_shown_whole(tmp_path):
    with pytest.raises(DataMistake) as refused:
        parse_each(tmp_path, [(1, "x" * 10_000)], int, "a number")
    assert len(str(refused.value)) < 200 + len(str(tmp_path))


def test_a_mistake_of_ours_is_not_blamed_on_the_list(tmp_path):
    with pytest.raises(ZeroDivisionError):
        parse_each(tmp_path, [(1, "x")], lambda _: 1 / 0, "a number")


def test_a_file_that_cannot_be_opened_says_why(tmp_path):
    text(tmp_path / "set" / "table", "x")

    def broken(path):
        raise RuntimeError("bad\n magic.")

    with pytest.raises(DataMistake) as refused:
        load(READER, tmp_path, "table", broken, "a table")
    assert f"{tmp_path / 'set' / 'table'} cannot be read as a table (bad magic); get it anew from" in str(refused.value)


def test_files_are_found_by_one_listing_of_each_folder(tmp_path, monkeypatch):
    paths = [f"{folder}/{number}.jpg" for folder in ("a", "b/c") for number in range(50)]
    for path in paths[::3]:
        image(tmp_path / path)
    asked = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: asked.append(folder) or scandir(folder))
    there = are_there(tmp_path, [*paths, "nowhere/1.jpg", "alone.jpg"])
    assert there.tolist() == [number % 3 == 0 for number in range(100)] + [False, False]
    assert sorted(asked) == [tmp_path, tmp_path / "a", tmp_path / "b" / "c", tmp_path / "nowhere"]


def test_folders_are_no_files_and_links_are_followed(tmp_path):
    image(tmp_path / "real" / "1.jpg")
    (tmp_path / "folder.jpg").mkdir()
    (tmp_path / "link.jpg").symlink_to(tmp_path / "real" / "1.jpg")
    (tmp_path / "dangling.jpg").symlink_to(tmp_path / "gone.jpg")
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    paths = ["folder.jpg", "link.jpg", "dangling.jpg", "linked/1.jpg", "link.jpg/1.jpg"]
    assert are_there(tmp_path, paths).tolist() == [False, True, False, True, False]
    assert names_in(tmp_path / "nowhere") == set()
    assert are_there(tmp_path, ["a\0b/1.jpg", f"{'x' * 300}/1.jpg", "link.jpg"]).tolist() == [False, False, True]


def test_a_path_out_of_the_folder_is_not_there(tmp_path):
    image(tmp_path / "outside.jpg")
    image(tmp_path / "set" / "inside.jpg")
    paths = ["inside.jpg", "../outside.jpg", f"{tmp_path}/outside.jpg", "a/../../outside.jpg"]
    assert are_there(tmp_path / "set", paths).tolist() == [True, False, False, False]


def test_a_label_is_the_place_of_its_class(tmp_path):
    split = list_images(tmp_path, [("a", 7), ("b", 3), ("c", 7)], {3: "three", 5: "five", 7: "seven"}, [9, 8, 9])
    assert split.labels.tolist() == [2, 0, 2]
    assert split.groups is not None
    assert split.groups.dtype == np.int64
    assert split.images.name(1) == "b"
