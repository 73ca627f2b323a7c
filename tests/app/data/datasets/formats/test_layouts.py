"""Where copies are looked for: names, folders in folders, the data root itself; and which layout is read first."""

import pytest

from shadowmetric.app.data.catalogue import DATASETS, is_here
from shadowmetric.app.data.dataset import Reader
from shadowmetric.app.data.datasets.formats.layouts import Layout, first_there, folders_of, locate, spell


def nothing(reader, root):
    raise AssertionError("it was read")


READER = Reader(
    "a", "A", "The_A/raw", "standard", {}, {}, "", "", nothing, other_folders=("another a",), files=("a.npz",)
)
FIRST, SECOND = Layout("first", ("one", "other"), nothing), Layout("second", ("two",), nothing)


def make(root, *places):
    for place in places:
        (root / place).mkdir(parents=True, exist_ok=True)


def test_folders_by_any_spelling_the_official_one_first(tmp_path):
    make(tmp_path, "Another-A", "The_A/raw", "the a/The_A/raw", "The_B", "another_a/inside")
    folders = ["The_A/raw", "The_A", "Another-A", "another_a", "the a", "the a/The_A/raw", "the a/The_A"]
    assert list(folders_of(READER, tmp_path)) == folders


def test_the_data_root_may_be_the_folder_or_hold_a_file_that_is_a_copy(tmp_path):
    make(tmp_path, "THE-A", "other")
    assert list(folders_of(READER, tmp_path / "THE-A")) == ["."]
    assert list(folders_of(READER, tmp_path / "other")) == []
    (tmp_path / "other" / "a.npz").touch()
    assert list(folders_of(READER, tmp_path / "other")) == ["."]
    assert list(folders_of(READER, tmp_path / "nowhere")) == []


@pytest.mark.parametrize(
    ("places", "folder", "layout"),
    [
        (["The_A/two", "another a/one"], "another a", FIRST),  # the first layout, wherever it is
        (["The_A/other", "another a/one"], "The_A", FIRST),  # the official folder, of two with one layout
        (["The_A/raw/two"], "The_A/raw", SECOND),
        (["The_A/three"], "The_A", FIRST),  # no layout: what is missing is named by the first one
        ([], "The_A/raw", FIRST),
    ],
)
def test_which_copy_is_read(tmp_path, places, folder, layout):
    make(tmp_path, *places)
    located, found = locate(READER, tmp_path, (FIRST, SECOND))
    assert (located.folder, found) == (folder, layout)


def test_first_there(tmp_path):
    assert first_there(tmp_path, ("a", "b")) == "a"
    make(tmp_path, "b", "c")
    assert first_there(tmp_path, ("a", "b", "c")) == "b"


def test_no_name_belongs_to_two_datasets(tmp_path):
    names = [
        (spell(name), reader.name)
        for reader in DATASETS.values()
        for name in {spell(folder) for folder in (reader.folder.partition("/")[0], *reader.other_folders) if folder}
    ]
    assert len({name for name, _ in names}) == len(names)


def test_what_is_listed_as_here(tmp_path):
    assert not is_here(DATASETS["cub200"], tmp_path)
    make(tmp_path, "cub-200")
    assert is_here(DATASETS["cub200"], tmp_path)
    assert not is_here(DATASETS["mnist"], tmp_path)
    (tmp_path / "mnist.npz").touch()
    assert is_here(DATASETS["mnist"], tmp_path)
