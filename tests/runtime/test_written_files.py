"""A file is whole or not there."""

import json
import math

import pytest

from shadowmetric.runtime.files import write_json, write_text, write_whole


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    write_text(path, "old")

    def fail(place):
        place.write_text("half of the n")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        write_whole(path, fail)
    assert path.read_text() == "old"
    assert [one.name for one in path.parent.iterdir()] == ["file.txt"]
    write_text(path, "new")
    assert path.read_text() == "new"


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path):
    path = tmp_path / "file.txt"

    def slow(place):
        place.write_text("first")
        write_text(path, "second")  # another writer, of the same process number on another machine
        assert path.read_text() == "second"

    write_whole(path, slow)
    assert path.read_text() == "first"
    assert [one.name for one in tmp_path.iterdir()] == ["file.txt"]


def test_json_has_null_for_what_is_not_finite(tmp_path):
    write_json(tmp_path / "a.json", {"a": math.nan, "b": [1.0, math.inf], "c": {"d": -math.inf}, "e": 3})
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": None, "b": [1.0, None], "c": {"d": None}, "e": 3}
