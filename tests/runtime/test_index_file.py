"""The index file: what is written is read, the same images give the same bytes, a failing writer loses nothing."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from image_folders import HOSTILE, SHAPE, contents_of, small_index, taken_apart, unit

from shadowmetric.errors import Mistake
from shadowmetric.runtime import files
from shadowmetric.runtime.entries import About, Entry, key_of
from shadowmetric.runtime.index_file import ALIGNED, START, read_index, write_index

ABOUT = About(4, "abc", SHAPE, ("../run", "/run"), "/photos", {"loss": "shadow"})


def same(found, wanted):
    assert np.array_equal(found.rows, wanted.rows, equal_nan=True)
    assert found.rows.dtype == np.float16
    assert np.array_equal(found.labels, wanted.labels)
    assert np.array_equal(found.hashes, wanted.hashes)
    assert list(found.paths) == list(wanted.paths)
    assert (found.classes, found.approximate_words) == (wanted.classes, wanted.approximate_words)
    assert len(found) == len(wanted.rows)


@st.composite
def indexes(draw):
    count, dim = draw(st.integers(0, 9)), draw(st.integers(1, 5))
    halves = st.floats(-2, 2, width=16)
    rows = draw(arrays.arrays(np.float16, (count, dim), elements=halves))
    classes = sorted(draw(st.sets(st.text(), max_size=3)))
    labels = draw(arrays.arrays(np.int32, count, elements=st.integers(-1, len(classes) - 1)))
    names = st.binary(min_size=1, max_size=30).map(os.fsdecode)
    paths = sorted(draw(st.lists(names, min_size=count, max_size=count, unique=True)))
    return rows, labels, paths, tuple(classes)


@given(indexes())
def test_what_is_written_is_read(tmp_path_factory, made):
    rows, labels, paths, classes = made
    file = tmp_path_factory.mktemp("index") / "x.shadowmx"
    wanted, about = contents_of(rows, labels, paths, classes), replace(ABOUT, dim=rows.shape[1])
    write_index(file, about, wanted)
    found_about, found = read_index(file)
    assert found_about == about
    same(found, wanted)
    for number, path in enumerate(paths):
        label = None if labels[number] < 0 else classes[labels[number]]
        assert found.entry(number) == Entry(key_of(path), path, label)


def test_hostile_paths_and_classes_come_back(tmp_path):
    paths = sorted(HOSTILE)
    wanted = contents_of(unit(np.eye(len(paths), 4) + 0.1), np.arange(len(paths)), paths, tuple(paths))
    write_index(tmp_path / "x", ABOUT, wanted)
    same(read_index(tmp_path / "x")[1], wanted)


def test_the_bytes_of_faiss_come_back(tmp_path):
    stored = np.frombuffer(os.urandom(1001), np.uint8)
    wanted = replace(contents_of(unit(np.eye(4))), approximate=stored, approximate_words="hnsw: good")
    write_index(tmp_path / "x", ABOUT, wanted)
    found = read_index(tmp_path / "x")[1]
    same(found, wanted)
    assert found.approximate is not None
    assert found.approximate.tobytes() == stored.tobytes()
    write_index(tmp_path / "x", ABOUT, replace(wanted, approximate=None))
    assert read_index(tmp_path / "x")[1].approximate is None


def test_paths_are_a_sequence(tmp_path):
    paths = read_index(small_index(tmp_path / "x"))[1].paths
    wanted = [f"{number:05}.png" for number in range(5)]
    assert len(paths) == 5
    assert [paths[number] for number in range(-5, 5)] == wanted + wanted
    assert paths[1:4] == wanted[1:4]
    assert paths[::-2] == wanted[::-2]
    assert list(paths) == wanted
    assert wanted[3] in paths
    with pytest.raises(IndexError):
        paths[5]
    with pytest.raises(IndexError):
        paths[-6]


def test_the_same_images_give_the_same_bytes(tmp_path):
    assert small_index(tmp_path / "a").read_bytes() == small_index(tmp_path / "b").read_bytes()


def test_the_file_is_laid_out_as_it_says(tmp_path):
    """Read by struct and numpy alone, as the module's docstring describes it."""
    stored = small_index(tmp_path / "x").read_bytes()
    assert stored[:8] == b"shadowmx"
    assert int.from_bytes(stored[8:12], "little") == 1
    length = int.from_bytes(stored[12:16], "little")
    header, parts = json.loads(stored[START.size : START.size + length]), taken_apart(tmp_path / "x")[1]
    assert list(header["arrays"]) == ["rows", "labels", "hashes", "path_ends", "paths"]
    for name in ("labels", "hashes", "path_ends", "paths"):
        assert stored.index(parts[name]) % ALIGNED == 0
    assert np.frombuffer(parts["path_ends"], "<i8").tolist() == [9, 18, 27, 36, 45]
    assert np.frombuffer(parts["labels"], "<i4").tolist() == [-1, 0, 1, -1, 0]
    assert b"pickle" not in stored


def test_rows_are_mapped_and_not_read_into_memory(tmp_path):
    found = read_index(small_index(tmp_path / "x"))[1]
    bases, array = [], found.rows
    while array is not None:
        bases.append(array)
        array = getattr(array, "base", None)
    assert any(isinstance(base, np.memmap) for base in bases)
    assert not found.rows.flags.writeable


def test_reading_tells_how_far_it_is(tmp_path):
    told = []
    read_index(small_index(tmp_path / "x"), told.append)
    assert told == [1.0] * 5


def test_a_later_version_is_refused_by_its_number(tmp_path):
    stored = bytearray(small_index(tmp_path / "x").read_bytes())
    stored[8] = 2
    (tmp_path / "x").write_bytes(stored)
    with pytest.raises(Mistake, match="has version 2 of the index format, and this program reads 1"):
        read_index(tmp_path / "x")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [(".", "is a folder; name the index"), ("none", "is not there; write it by `shadowmetric index RUN FOLDER")],
)
def test_no_file_is_refused(tmp_path, name, sentence):
    with pytest.raises(Mistake, match=sentence):
        read_index(tmp_path / name)


class Failing:
    """A file that cannot take the n-th piece of what is written into it."""

    def __init__(self, file, left):
        self.file, self.left = file, left

    def write(self, piece):
        if not self.left:
            self.file.write(bytes(piece)[: len(bytes(piece)) // 2])
            raise OSError(28, "No space left on device")
        self.left -= 1
        return self.file.write(piece)

    def tell(self):
        return self.file.tell()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()


def pieces(file):
    """Return how many pieces an index is written in."""
    return 1 + 2 * len(taken_apart(file)[0]["arrays"])


def test_a_writer_that_fails_at_any_piece_leaves_the_old_index(tmp_path, monkeypatch):
    file = small_index(tmp_path / "x")
    old, really_open, count = file.read_bytes(), Path.open, pieces(file)
    assert count == 11
    for left in range(count):

        def opens(path, mode="r", *more, left=left, **named):
            opened = really_open(path, mode, *more, **named)
            return Failing(opened, left) if mode == "wb" else opened

        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", opens)
            with pytest.raises(OSError, match="No space"):
                small_index(file, rows=7)
        assert file.read_bytes() == old
        assert os.listdir(tmp_path) == ["x"]
    small_index(file, rows=7)
    assert len(read_index(file)[1]) == 7


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_disk_that_fails_at_the_end_leaves_the_old_index(tmp_path, monkeypatch, name):
    file = small_index(tmp_path / "x")
    old = file.read_bytes()

    def fail(*_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(files.os, name, fail)
        with pytest.raises(OSError, match="Input/output"):
            small_index(file, rows=7)
    assert file.read_bytes() == old
    assert os.listdir(tmp_path) == ["x"]


def test_an_index_that_is_open_is_not_disturbed_by_a_new_one(tmp_path):
    file = small_index(tmp_path / "x", rows=5)
    found = read_index(file)[1]
    rows, paths = np.array(found.rows), list(found.paths)
    small_index(file, rows=900)
    assert np.array_equal(found.rows, rows)
    assert list(found.paths) == paths
    assert len(read_index(file)[1]) == 900


def test_files_of_others_beside_an_index_are_left_alone(tmp_path):
    others = [tmp_path / name for name in (".x.part", ".x.lock", ".x.swp", ".x.old.part", ".y", "x.bak")]
    for other in others:
        other.write_text("somebody's")
        os.utime(other, (time.time() - 9000, time.time() - 9000))
    small_index(tmp_path / "x")
    assert [other.name for other in others if not other.exists()] == []
