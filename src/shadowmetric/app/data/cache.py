"""Images read once and kept in memory, at the size that training cuts from.

Decoding a file of 96 pixels takes about as long as a small network's step on it. So a set whose resized images fit
into a limit is decoded once, by several threads, and kept; a larger one is decoded every time,
by worker processes. A file that cannot be read is found here: it is refused by name, or left out and counted.

Memory: the bytes of the resized images, at most the limit.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from shadowmetric.app.data.dataset import Split
from shadowmetric.app.data.images import ArrayImages, ImageSource
from shadowmetric.app.data.preprocessing import Preprocessing
from shadowmetric.errors import BrokenImage, DataMistake

THREADS = 4
NAMED = 5  # broken files in a sentence


@dataclass(frozen=True, eq=False)
class ResizedImages:
    """Images of another source, resized whenever they are read."""

    images: ImageSource
    shape: Preprocessing

    def __len__(self) -> int:
        return len(self.images)

    def read(self, number: int) -> Tensor:
        """Return an image, (channels, height, width) uint8."""
        return self.shape.resize_short_side(self.images.read(number))

    def name(self, number: int) -> str:
        """Return what people call it."""
        return self.images.name(number)

    def take(self, numbers: np.ndarray) -> "ResizedImages":
        """Return the source of some of the images, in the order given."""
        return ResizedImages(self.images.take(numbers), self.shape)


@dataclass(frozen=True, eq=False)
class CachedImages:
    """Images of any sizes in memory."""

    images: Sequence[Tensor]
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.images)

    def read(self, number: int) -> Tensor:
        """Return an image, (channels, height, width) uint8."""
        return self.images[number]

    def name(self, number: int) -> str:
        """Return what people call it."""
        return self.names[number]

    def take(self, numbers: np.ndarray) -> "CachedImages":
        """Return the source of some of the images, in the order given; they are shared."""
        places = [int(number) for number in numbers]
        return CachedImages([self.images[place] for place in places], [self.names[place] for place in places])


def prepare_images(
    split: Split,
    shape: Preprocessing,
    *,
    limit_bytes: int,
    skip_broken: bool = False,
    tell: Callable[[int], None] | None = None,
) -> tuple[Split, list[str]]:
    """Return the split with resized images, in memory if they fit, and the names of those left out as broken.

    Images that are not kept are decoded here only if broken ones are to be skipped; otherwise whoever meets one is
    told its name. tell: told how many images are done.
    """
    if len(split) == 0:
        raise DataMistake("there are no images.")
    images = split.images
    if isinstance(images, ArrayImages):
        native = images.pixels.shape
        if native[1] == shape.channels and min(native[2:]) == shape.resize:
            return split, []
    resized = ResizedImages(images, shape)
    keep = estimated_bytes(resized) <= limit_bytes
    if not keep and not skip_broken:
        return Split(resized, split.labels, split.groups), []
    loaded, broken = read_all(resized, keep, tell)
    if broken and not skip_broken:
        raise refusal_of(broken)
    whole = np.setdiff1d(np.arange(len(split)), list(broken))
    if len(whole) == 0:
        raise DataMistake(f"none of the {len(split)} images can be read; the first: {next(iter(broken.values()))}")
    rest = split.take(whole)
    source = ResizedImages(rest.images, shape)
    if keep:
        source = CachedImages(loaded, [images.name(number) for number in whole.tolist()])
    return Split(source, rest.labels, rest.groups), [images.name(number) for number in broken]


def estimated_bytes(images: ImageSource, looked_at: int = 31) -> float:
    """Return about what the images take in memory."""
    sizes = []
    for number in np.unique(np.linspace(0, len(images) - 1, min(looked_at, len(images))).astype(int)).tolist():
        try:
            sizes.append(images.read(number).numel())
        except BrokenImage:
            continue
    return float(np.mean(sizes)) * len(images) if sizes else 0.0


def read_all(
    images: ImageSource, keep: bool, tell: Callable[[int], None] | None
) -> tuple[list[Tensor], dict[int, str]]:
    """Return the images that can be read, in order, or nothing if they are not to be kept; and what is broken."""

    def attempt(number: int) -> Tensor | str | None:
        try:
            image = images.read(number)
        except BrokenImage as error:
            return str(error)
        return image if keep else None

    loaded, broken = [], {}
    with ThreadPoolExecutor(THREADS) as threads:
        for number, result in enumerate(threads.map(attempt, range(len(images)))):
            if isinstance(result, str):
                broken[number] = result
            elif result is not None:
                loaded.append(result)
            if tell is not None:
                tell(number + 1)
    return loaded, broken


def refusal_of(broken: dict[int, str]) -> DataMistake:
    """Return the refusal of images that cannot be read, with the first reasons."""
    reasons = list(broken.values())
    more = f" And {len(reasons) - NAMED} more." if len(reasons) > NAMED else ""
    return DataMistake(
        f"{len(reasons)} images cannot be read: {' '.join(reasons[:NAMED])}{more} "
        "Repair or remove them; `shadowmetric train --broken skip` leaves them out."
    )
