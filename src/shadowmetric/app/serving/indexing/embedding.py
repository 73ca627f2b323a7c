"""Many images to rows: decoded by several threads, embedded a batch at a time.

Decoding releases Python's lock, so threads are enough. They are a few batches ahead of the model and no further.

Memory: a few batches of squares, and as many decoded images as there are threads.
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
from shadowmetric.runtime.images import open_image

BATCH = 32
MOST_BYTES = 2**29  # of one file
AHEAD = 2  # batches that may be decoded before they are wanted
Item = TypeVar("Item")
Made = TypeVar("Made")


class Embedded(NamedTuple):
    """An image's row, and the SHA-256 of its file."""

    listed: Listed
    digest: bytes
    row: np.ndarray  # (dim,) float32


def digests_of(
    root: Path, images: Iterable[Listed], *, threads: int | None = None, broken: list[str] | None = None
) -> Iterator[tuple[Listed, bytes]]:
    """Yield each image with the SHA-256 of its file; what cannot be read is named in `broken` and left out."""

    def digest(listed: Listed) -> tuple[Listed, bytes] | str:
        try:
            with (root / listed.path).open("rb") as file:
                return listed, hashlib.file_digest(file, "sha256").digest()
        except OSError as error:
            return f"{listed.path} cannot be read ({error.strerror})."

    yield from without_broken(in_threads(digest, images, threads, 256), broken)


def embed_images(
    model: Model,
    root: Path,
    images: Iterable[Listed],
    *,
    batch: int = BATCH,
    threads: int | None = None,
    broken: list[str] | None = None,
) -> Iterator[list[Embedded]]:
    """Yield the rows of images, a batch at a time and in order; what cannot be read is named in `broken`."""

    def square(listed: Listed) -> tuple[Listed, bytes, np.ndarray] | str:
        try:
            stored = read_file(root / listed.path, listed.path)
            image = open_image(BytesIO(stored), listed.path)
            return listed, hashlib.sha256(stored).digest(), model.about.shape.square(image, listed.path)
        except BrokenImage as error:
            return str(error)
        except OSError as error:
            return f"{listed.path} cannot be read ({error.strerror})."

    whole = without_broken(in_threads(square, images, threads, AHEAD * batch), broken)
    while some := list(islice(whole, batch)):
        rows = model.embed(np.stack([pixels for _, _, pixels in some]))
        yield [Embedded(listed, digest, row) for (listed, digest, _), row in zip(some, rows, strict=True)]


def read_file(path: Path, name: str) -> bytes:
    """Return the bytes of a file that may be an image."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise BrokenImage(f"{name} has {size:,} bytes; the most is {MOST_BYTES:,}.")
    return path.read_bytes()


def without_broken(results: Iterable[Made | str], broken: list[str] | None) -> Iterator[Made]:
    """Yield what was made, and keep the sentences on what could not be."""
    for result in results:
        if not isinstance(result, str):
            yield result
        elif broken is not None:
            broken.append(result)


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
