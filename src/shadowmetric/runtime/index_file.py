"""An index in one file: a header, and arrays that are mapped into memory as they lie on disk. No pickle.

    bytes 0 to 7     shadowmx
    8 to 11          version of this format, little-endian, as all numbers are
    12 to 15         length of the header
    16 to 47         SHA-256 of the header
    48 on            the header, JSON: rows, dim, classes, about the model, and for each array its place and SHA-256
    then the arrays, each at a multiple of 64 bytes:
      rows           (rows, dim) float16, of length 1 but for rounding
      labels         (rows,) int32: places in the header's classes, -1 for none
      hashes         (rows, 32) uint8: SHA-256 of each image's file
      path_ends      (rows,) int64, and paths: UTF-8, one after the other
      approximate    what faiss needs to search without looking at every row; may be absent

All is checked when an index is opened, the arrays too: a file that is cut short, damaged, foreign or of a later
version is refused. Paths are sorted, so that the same folder gives the same file.

Memory: pages of the file that are in use. Time to open: that of SHA-256, about a second a gigabyte.
"""

import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .entries import About, Entry, about_from, key_of
from .errors import Mistake
from .files import write_whole

MAGIC = b"shadowmx"
VERSION = 1
START = struct.Struct("<8sII32s")
ALIGNED = 64  # bytes
MOST_HEADER = 2**28  # bytes: a length that nobody meant would else be allocated
AT_ONCE = 2**22  # bytes that are hashed at once
INFINITE = 0x7C00  # bits of the exponent of a float16
AGAIN = "index the images again, or bring back a copy"


@dataclass(frozen=True, eq=False)
class Contents:
    """The arrays of an index, all with as many rows, ordered by path."""

    rows: np.ndarray  # (rows, dim) float16
    labels: np.ndarray  # (rows,) int32
    hashes: np.ndarray  # (rows, 32) uint8
    paths: Sequence[str]
    classes: tuple[str, ...]
    approximate: np.ndarray | None = None  # bytes
    approximate_words: str = ""  # its kind, and how good it is

    def __len__(self) -> int:
        return len(self.rows)

    def entry(self, number: int) -> Entry:
        """Return what is known of a row."""
        path, label = self.paths[number], int(self.labels[number])
        return Entry(key_of(path), path, None if label < 0 else self.classes[label])


class StoredPaths(Sequence):
    """Paths in one array of bytes, decoded when they are asked for."""

    def __init__(self, ends: np.ndarray, stored: np.ndarray):
        self.ends, self.stored = ends, stored

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[place] for place in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        start = int(self.ends[number - 1]) if number else 0
        return os.fsdecode(self.stored[start : int(self.ends[number])].tobytes())


def write_index(path: Path, about: About, contents: Contents) -> None:
    """Write an index that takes its place at once."""
    stored = [os.fsencode(name) for name in contents.paths]
    arrays: dict[str, np.ndarray] = {
        "rows": np.ascontiguousarray(contents.rows, "<f2"),
        "labels": np.ascontiguousarray(contents.labels, "<i4"),
        "hashes": np.ascontiguousarray(contents.hashes, np.uint8),
        "path_ends": np.cumsum([len(name) for name in stored], dtype="<i8"),
        "paths": np.frombuffer(b"".join(stored), np.uint8),
    }
    if contents.approximate is not None:
        arrays["approximate"] = contents.approximate
    header = {
        "rows": len(contents),
        "classes": list(contents.classes),
        "about": about.plain(),
        "approximate": contents.approximate_words,
        "arrays": {name: {"bytes": array.nbytes, "sha256": sha256(array)} for name, array in arrays.items()},
    }
    text = json.dumps(header).encode("ascii")

    def fill(place: Path) -> None:
        with place.open("wb") as file:
            file.write(START.pack(MAGIC, VERSION, len(text), hashlib.sha256(text).digest()) + text)
            for array in arrays.values():
                file.write(bytes(-file.tell() % ALIGNED))
                file.write(array.data if array.size else b"")

    write_whole(path, fill)


def read_index(
    path: Path,
    tell: Callable[[float], None] | None = None,
    *,
    copied: Callable[[Path, BinaryIO], BinaryIO] | None = None,
) -> tuple[About, Contents]:
    """Return an index, its arrays mapped into memory, or refuse it in one sentence.

    tell: hears the share of each array that is checked. copied: makes the copy of the open file that is mapped instead.
    """
    try:
        if path.is_fifo():  # it would be waited for
            raise Mistake(f"{path} is a pipe; name a file that `shadowmetric index` wrote.")
        with path.open("rb") as file:  # all is read from this one, whatever takes its place meanwhile
            if copied is None:
                return check_arrays(path, file, *read_header(path, file), tell)
            with copied(path, file) as copy:
                return check_arrays(path, copy, *read_header(path, copy), tell)
    except IsADirectoryError:
        raise Mistake(f"{path} is a folder; name the index, a file that `shadowmetric index` wrote.") from None
    except FileNotFoundError:
        raise Mistake(f"{path} is not there; write it by `shadowmetric index RUN FOLDER --out {path}`.") from None
    except OSError as error:
        raise Mistake(f"{path} cannot be read ({error.strerror}).") from None
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        if isinstance(error, Mistake):
            raise
        raise damage_error(path, f"its header makes no sense: {error!r}") from None


def read_header(path: Path, file: BinaryIO) -> tuple[dict[str, Any], int]:
    """Return the header, and where it ends."""
    start = file.read(START.size)
    if start[: len(MAGIC)] != MAGIC:
        what = "is empty" if not start else f"begins with {start[:8]!r}"
        raise Mistake(f"{path} is no index: it {what}; name a file that `shadowmetric index` wrote.")
    if len(start) < START.size:
        raise cut_short(path)
    _, version, length, digest = START.unpack(start)
    if version != VERSION:
        raise Mistake(f"{path} has version {version} of the index format, and this program reads {VERSION}; {AGAIN}.")
    if length > MOST_HEADER:
        raise damage_error(path, "the length of its header")
    text = file.read(length)
    if len(text) < length:
        raise cut_short(path)
    if hashlib.sha256(text).digest() != digest:
        raise damage_error(path, "its header")
    try:
        header = json.loads(text)
    except (RecursionError, ValueError) as error:
        raise damage_error(path, f"its header is no JSON: {type(error).__name__}") from None
    if not isinstance(header, dict):
        raise damage_error(path, "its header is no table")
    return header, file.tell()


def check_arrays(
    path: Path, file: BinaryIO, header: dict[str, Any], place: int, tell: Callable[[float], None] | None
) -> tuple[About, Contents]:
    """Return the arrays if every one is whole and as large as the header says."""
    size = os.fstat(file.fileno()).st_size
    about, rows = about_from(header["about"], str(path)), int(header["rows"])
    classes = tuple(str(name) for name in header["classes"])
    arrays: dict[str, np.ndarray] = {}
    for name, wanted in header["arrays"].items():
        place += -place % ALIGNED
        if place + wanted["bytes"] > size:
            raise cut_short(path)
        arrays[name] = map_bytes(file, place, wanted["bytes"])
        if sha256(arrays[name], tell) != wanted["sha256"]:
            raise damage_error(path, f"its array {name}")
        place += wanted["bytes"]
    if place != size:
        raise damage_error(path, f"it has {size - place:,} bytes too many")
    ends = arrays["path_ends"].view("<i8")
    contents = Contents(
        arrays["rows"].view("<f2").reshape(rows, about.dim),
        arrays["labels"].view("<i4"),
        arrays["hashes"].reshape(rows, 32),
        StoredPaths(ends, arrays["paths"]),
        classes,
        arrays.get("approximate"),
        str(header["approximate"]),
    )
    if not len(contents.labels) == len(ends) == rows:
        raise damage_error(path, "its arrays have different numbers of rows")
    if rows and not -1 <= contents.labels.min() <= contents.labels.max() < len(classes):
        raise damage_error(path, "it has classes without a name")
    if (np.diff(ends, prepend=0) < 0).any() or (ends[-1] if rows else 0) != len(arrays["paths"]):
        raise damage_error(path, "its paths do not end where it says")
    if any(((part.view("<u2") & INFINITE) == INFINITE).any() for part in parts(contents.rows)):
        raise damage_error(path, "it has rows that are not finite")
    return about, contents


def map_bytes(file: BinaryIO, place: int, size: int) -> np.ndarray:
    """Return bytes of a file, mapped into memory; they stay so when the file is closed."""
    if size == 0:
        return np.empty(0, np.uint8)
    return np.memmap(file, np.uint8, "r", offset=place, shape=(size,))


def parts(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the bytes of an array, some at a time."""
    flat = array.reshape(-1).view(np.uint8)
    for start in range(0, len(flat), AT_ONCE):
        yield flat[start : start + AT_ONCE]


def sha256(array: np.ndarray, tell: Callable[[float], None] | None = None) -> str:
    """Return the digest of an array's bytes; `tell` hears the share that is done."""
    digest, done = hashlib.sha256(), 0
    for part in parts(array):
        digest.update(part.data)
        done += len(part)
        if tell is not None:
            tell(done / array.nbytes)
    return digest.hexdigest()


def cut_short(path: Path) -> Mistake:
    """Return the refusal of a file that ends too early."""
    return Mistake(f"{path} is cut short; {AGAIN}.")


def damage_error(path: Path, what: str) -> Mistake:
    """Return the refusal of a file whose bytes are not those that were written."""
    return Mistake(f"{path} is damaged ({what}); {AGAIN}.")
