"""Know images again by their pixels: two files with the same pixels are the same image, however they are packed.

Every image is decoded as a whole, by a few threads, and a hash of its pixels and shape is kept. Memory: the images
in work and 16 bytes for each.
"""

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from shadowmetric.app.data.dataset import Split
from shadowmetric.app.data.images import ImageSource
from shadowmetric.errors import BrokenImage

BLOCK = 64  # images that a thread takes at once

Prints = dict[str, list[bytes | None]]  # part -> the hash of each image, None if it cannot be read
Place = tuple[str, int]  # part, number


def hash_images(images: ImageSource) -> Iterator[tuple[bytes | None, str]]:
    """Yield the hash of each image, in order, or None and why it cannot be read."""

    def block(start: int) -> list[tuple[bytes | None, str]]:
        return [_decode(images, number) for number in range(start, min(start + BLOCK, len(images)))]

    workers = os.cpu_count() or 1
    starts = iter(range(0, len(images), BLOCK))
    pool = ThreadPoolExecutor(workers)
    try:
        waiting = [pool.submit(block, start) for start in islice(starts, 2 * workers)]
        while waiting:
            yield from waiting.pop(0).result()
            waiting += [pool.submit(block, start) for start in islice(starts, 1)]
    finally:
        pool.shutdown(cancel_futures=True)


def _decode(images: ImageSource, number: int) -> tuple[bytes | None, str]:
    try:
        image = images.read(number)
    except BrokenImage as error:
        return None, str(error)
    digest = hashlib.blake2b(repr(tuple(image.shape)).encode(), digest_size=16)
    digest.update(image.contiguous().numpy().data)
    return digest.digest(), ""


def find_leaks(parts: dict[str, Split], prints: Prints) -> Iterator[tuple[str, str]]:
    """Yield the name of each test or gallery image that trains too, and the name under which it trains."""
    first = first_places(prints.get("train", []))
    for part in [part for part in prints if part != "train"]:
        for number, digest in enumerate(prints[part]):
            if digest in first:
                yield parts[part].images.name(number), parts["train"].images.name(first[digest])


def find_duplicates(split: Split, prints: list[bytes | None]) -> Iterator[tuple[str, str]]:
    """Yield the name of each image that is in its part already, and the name under which it came first."""
    first = first_places(prints)
    for number, digest in enumerate(prints):
        if digest is not None and first[digest] != number:
            yield split.images.name(number), split.images.name(first[digest])


def first_places(prints: list[bytes | None]) -> dict[bytes, int]:
    """Return where each hash comes first."""
    return {digest: number for number, digest in reversed(list(enumerate(prints))) if digest is not None}


def find_conflicts(parts: dict[str, Split], prints: Prints) -> Iterator[tuple[Place, Place]]:
    """Yield where an image comes first with each further class that it has, and where it came first of all."""
    first: dict[bytes, dict[int, Place]] = defaultdict(dict)
    for part, digests in prints.items():
        for number, (digest, label) in enumerate(zip(digests, parts[part].labels.tolist(), strict=True)):
            if digest is None or label in first[digest]:
                continue
            if first[digest]:
                yield (part, number), next(iter(first[digest].values()))
            first[digest][label] = (part, number)
