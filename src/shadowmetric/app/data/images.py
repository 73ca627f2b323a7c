"""Where images come from: an array in memory, or files.

Every source gives image `number` as a (channels, height, width) uint8 tensor with 1 or 3 channels, and can say what
that image is called when something is wrong with it.

Files are read by content, not by extension: a phone's orientation mark is obeyed, transparency is laid on white,
16-bit gray is scaled to 8. A file that cannot be read as a whole, cut short for instance, is a `BrokenImage`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from shadowmetric.errors import BrokenImage as BrokenImage
from shadowmetric.runtime.shape import MOST_PIXELS


@runtime_checkable
class ImageSource(Protocol):
    """Numbered images."""

    def __len__(self) -> int: ...

    def read(self, number: int) -> Tensor:
        """Return an image, (channels, height, width) uint8."""
        ...

    def name(self, number: int) -> str:
        """Return what people call it."""
        ...

    def take(self, numbers: np.ndarray) -> "ImageSource":
        """Return the source of some of the images, in the order given."""
        ...


@dataclass(frozen=True, eq=False)
class ArrayImages:
    """Images of one size in memory."""

    pixels: Tensor  # (images, channels, height, width) uint8
    title: str = "image"
    numbers: np.ndarray | None = None  # in the array that these were taken from
    names: Sequence[str] | None = None  # by number in that array, if each has one of its own

    def __len__(self) -> int:
        return len(self.pixels)

    def read(self, number: int) -> Tensor:
        """Return an image, (channels, height, width) uint8."""
        return self.pixels[number]

    def name(self, number: int) -> str:
        """Return what people call it."""
        known = number if self.numbers is None else int(self.numbers[number])
        return f"{self.title} {known}" if self.names is None else self.names[known]

    def take(self, numbers: np.ndarray) -> "ArrayImages":
        """Return the source of some of the images, in the order given."""
        indices = np.asarray(numbers, np.int64)
        known = indices if self.numbers is None else self.numbers[indices]
        return ArrayImages(self.pixels[torch.from_numpy(indices)], self.title, known, self.names)


@dataclass(frozen=True, eq=False)
class FileImages:
    """Images in files below a folder."""

    root: Path
    paths: Sequence[str]  # below root
    channels: int = 3

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, number: int) -> Tensor:
        """Return an image, (channels, height, width) uint8."""
        return read_image(self.root / self.paths[number], self.channels)

    def name(self, number: int) -> str:
        """Return what people call it."""
        return self.paths[number]

    def take(self, numbers: np.ndarray) -> "FileImages":
        """Return the source of some of the images, in the order given."""
        return FileImages(self.root, [self.paths[int(number)] for number in numbers], self.channels)


def read_image(path: Path, channels: int = 3) -> Tensor:
    """Return the image in a file, (channels, height, width) uint8."""
    from shadowmetric.runtime.images import open_image

    array = np.array(open_image(path, most_pixels=MOST_PIXELS).convert("L" if channels == 1 else "RGB"))
    return torch.from_numpy(array[None] if channels == 1 else array.transpose(2, 0, 1).copy())
