"""IDX files: plain and gzipped, and every way in which one can be wrong."""

import gzip
import struct

import numpy as np
import pytest

from shadowmetric.app.data.datasets.formats.idx import find_idx, read_idx
from shadowmetric.errors import DataMistake

VALUES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


def idx_bytes(array, magic=None):
    header = bytes((0, 0, 8, array.ndim)) if magic is None else magic
    return header + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.mark.parametrize(("name", "pack"), [("a", bytes), ("a.gz", gzip.compress)])
def test_an_array_comes_back(tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(idx_bytes(VALUES)))
    found = read_idx(find_idx(tmp_path, "a"), 3)
    assert np.array_equal(found, VALUES)
    assert found.dtype == np.uint8
    assert found.flags.writeable


def test_the_plain_file_comes_before_the_gzipped_one(tmp_path):
    assert find_idx(tmp_path, "a") is None
    (tmp_path / "a.gz").touch()
    assert find_idx(tmp_path, "a") == tmp_path / "a.gz"
    (tmp_path / "a").touch()
    assert find_idx(tmp_path, "a") == tmp_path / "a"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "begins with nothing"),
        (b"\x00\x00\x08", "begins with 00 00 08 and not with 00 00 08 03"),
        (idx_bytes(VALUES, b"\0\0\x09\x03"), "begins with 00 00 09 03"),
        (idx_bytes(VALUES[0]), "begins with 00 00 08 02"),
        (idx_bytes(VALUES)[:-1], "has only 23 of the 24 values of its shape"),
        (idx_bytes(VALUES) + b"x", "has more of the 24 values"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "claims the shape"),
    ],
)
def test_what_is_refused(tmp_path, content, sentence):
    for name, pack in (("a", bytes), ("a.gz", gzip.compress)):
        (tmp_path / name).write_bytes(pack(content))
        with pytest.raises(DataMistake, match=sentence):
            read_idx(tmp_path / name, 3)


def test_a_damaged_gzip_is_a_sentence(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(idx_bytes(VALUES))[:-9])
    with pytest.raises(DataMistake, match=r"a.gz cannot be read \(.*\); get it again"):
        read_idx(path, 3)
