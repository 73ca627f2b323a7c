"""Many pictures to rows: decoded by several threads, embedded a batch at a time.

Decoding releases Python's lock, so threads are enough. They are a few batches ahead of the model and no further.

Memory: a few batches of squares, and as many decoded pictures as there are threads.
"""

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from shadowmetric.app.serving.indexing.listing import Listed
from shadowmetric.app.serving.model import Model
from shadowmetric.errors import BrokenImage
from shadowmetric.runtime.pictures import open_picture

BATCH = 32
MOST_BYTES = 2**29  # of one file
AHEAD = 2  # batches that may be decoded before they are wanted
Item = TypeVar("Item")
Made = TypeVar("Made")


class Embedded(NamedTuple):
    """A picture's row, and the SHA-256 of its file."""

    listed: Listed
    digest: bytes
    row: np.ndarray  # (dim,) float32


def digests_of(
    root: Path, pictures: Iterable[Listed], *, threads: int | None = None, broken: list[str] | None = None
) -> Iterator[tuple[Listed, bytes]]:
    """Yield each picture with the SHA-256 of its file; what cannot be read is named in `broken` and left out."""

    def digest(listed: Listed) -> tuple[Listed, bytes] | str:
        try:
            with (root / listed.path).open("rb") as file:
                return listed, hashlib.file_digest(file, "sha256").digest()
        except OSError as wrong:
            return f"{listed.path} cannot be read ({wrong.strerror})."

    yield from without_broken(in_threads(digest, pictures, threads, 256), broken)


def embed_pictures(
    model: Model,
    root: Path,
    pictures: Iterable[Listed],
    *,
    batch: int = BATCH,
    threads: int | None = None,
    broken: list[str] | None = None,
) -> Iterator[list[Embedded]]:
    """Yield the rows of pictures, a batch at a time and in order; what cannot be read is named in `broken`."""

    def square(listed: Listed) -> tuple[Listed, bytes, np.ndarray] | str:
        try:
            stored = read_file(root / listed.path, listed.path)
            picture = open_picture(BytesIO(stored), listed.path)
            return listed, hashlib.sha256(stored).digest(), model.about.shape.square(picture, listed.path)
        except BrokenImage as wrong:
            return str(wrong)
        except OSError as wrong:
            return f"{listed.path} cannot be read ({wrong.strerror})."

    whole = without_broken(in_threads(square, pictures, threads, AHEAD * batch), broken)
    while some := list(islice(whole, batch)):
        rows = model.embed(np.stack([pixels for _, _, pixels in some]))
        yield [Embedded(listed, digest, row) for (listed, digest, _), row in zip(some, rows, strict=True)]


def read_file(path: Path, name: str) -> bytes:
    """Return the bytes of a file that may be a picture."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise BrokenImage(f"{name} has {size:,} bytes; the most is {MOST_BYTES:,}.")
    return path.read_bytes()


def without_broken(found: Iterable[Made | str], broken: list[str] | None) -> Iterator[Made]:
    """Yield what was made, and keep the sentences on what could not be."""
    for made in found:
        if not isinstance(made, str):
            yield made
        elif broken is not None:
            broken.append(made)


def in_threads(make: Callable[[Item], Made], items: Iterable[Item], threads: int | None, ahead: int) -> Iterator[Made]:
    """Yield make(item) of every item, in order, with at most `ahead` of them made or being made."""
    waiting = iter(items)
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        running = deque(pool.submit(make, item) for item in islice(waiting, ahead))
        try:
            while running:
                yield running.popleft().result()
                running.extend(pool.submit(make, item) for item in islice(waiting, 1))
        finally:
            for left in running:
                left.cancel()
