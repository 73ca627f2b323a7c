"""Files that are whole or not there; who cannot write one hears its name."""

import resource
import signal

import pytest

from shadowmetric.runtime.files import write_whole


def test_a_file_that_cannot_be_written_is_named_and_the_old_one_stays(tmp_path):
    file = tmp_path / "x.shadowmx"
    file.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[0][1]))
    try:
        with pytest.raises(OSError, match="File too large") as error:
            write_whole(file, lambda place: place.write_bytes(bytes(5000)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before[0])
        signal.signal(signal.SIGXFSZ, before[1])
    assert error.value.filename == str(file)
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_the_file_beside_is_not_named_but_another_is(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="Is a directory") as error:
        write_whole(tmp_path / "folder", lambda place: place.write_bytes(b"new"))
    assert error.value.filename == str(tmp_path / "folder")
    with pytest.raises(FileNotFoundError) as error:
        write_whole(tmp_path / "x", lambda place: (tmp_path / "other").read_bytes())
    assert error.value.filename == str(tmp_path / "other")
