"""A copy that nobody else can change: it has no name, and lies beside the file if it can."""

import os
import tempfile
from pathlib import Path

import pytest

from shadowmetric.app.serving.galleries import own_copy as module
from shadowmetric.app.serving.galleries.own_copy import own_copy
from shadowmetric.errors import Mistake


@pytest.fixture
def file(tmp_path):
    place = tmp_path / "folder" / "x.shadowmx"
    place.parent.mkdir()
    place.write_bytes(b"some bytes" * 1000)
    return place


def copy_of(file):
    with file.open("rb") as opened:
        opened.read(7)  # from wherever it was read to
        return own_copy(file, opened)


def test_a_copy_has_the_bytes_and_no_name_and_does_not_change(file):
    with copy_of(file) as copy:
        assert [path.name for path in file.parent.iterdir()] == ["x.shadowmx"]
        assert os.fstat(copy.fileno()).st_nlink == 0
        os.truncate(file, 3)
        assert copy.read() == b"some bytes" * 1000


def full(*folders):
    """Return a copying that fails in some folders."""
    whole = module.copy_file

    def copied(opened, folder):
        if folder in folders:
            raise OSError(28, "No space left on device")
        return whole(opened, folder)

    return copied


def test_a_folder_without_room_is_passed_over(file, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(module, "copy_file", full(file.parent))
    with copy_of(file) as copy:
        assert copy.read() == b"some bytes" * 1000


def test_no_room_at_all_is_one_sentence(file, monkeypatch):
    temporary = Path(tempfile.gettempdir())
    monkeypatch.setattr(module, "copy_file", full(file.parent, temporary))
    with pytest.raises(Mistake) as refused:
        copy_of(file)
    assert str(refused.value) == (
        f"there is no room for a copy of {file}, 0.0 MB, to be served ({file.parent}: No space left on device; "
        f"{temporary}: No space left on device); make room, or name another folder in TMPDIR."
    )
