"""Where pictures come from: an array in memory, or files.

Every source gives picture `number` as a (channels, height, width) uint8 tensor with 1 or 3 channels, and can say what
that picture is called when something is wrong with it.

Files are read by content, not by extension: a phone's orientation mark is obeyed, transparency is laid on white,
16-bit grey is scaled to 8. A file that cannot be read as a whole, cut short for instance, is a `BrokenImage`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from shadowmetric.mistakes import Mistake

MOST_PIXELS = 2**27  # of one file: more is refused unread, as a decompression bomb


class BrokenImage(Mistake):
    """A picture that cannot be read, with its name and the reason in one sentence."""


@runtime_checkable
class ImageSource(Protocol):
    """Numbered pictures."""

    def __len__(self) -> int: ...

    def read(self, number: int) -> Tensor:
        """Return a picture, (channels, height, width) uint8."""
        ...

    def name(self, number: int) -> str:
        """Return what people call it."""
        ...

    def take(self, numbers: np.ndarray) -> "ImageSource":
        """Return the source of some of the pictures, in the order given."""
        ...


@dataclass(frozen=True, eq=False)
class ArrayImages:
    """Pictures of one size in memory."""

    pixels: Tensor  # (images, channels, height, width) uint8
    title: str = "picture"
    numbers: np.ndarray | None = None  # in the array that these were taken from

    def __len__(self) -> int:
        return len(self.pixels)

    def read(self, number: int) -> Tensor:
        """Return a picture, (channels, height, width) uint8."""
        return self.pixels[number]

    def name(self, number: int) -> str:
        """Return what people call it."""
        return f"{self.title} {number if self.numbers is None else self.numbers[number]}"

    def take(self, numbers: np.ndarray) -> "ArrayImages":
        """Return the source of some of the pictures, in the order given."""
        chosen = np.asarray(numbers, np.int64)
        known = chosen if self.numbers is None else self.numbers[chosen]
        return ArrayImages(self.pixels[torch.from_numpy(chosen)], self.title, known)


@dataclass(frozen=True, eq=False)
class FileImages:
    """Pictures in files below a folder."""

    root: Path
    paths: Sequence[str]  # below root
    channels: int = 3

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, number: int) -> Tensor:
        """Return a picture, (channels, height, width) uint8."""
        return read_image(self.root / self.paths[number], self.channels)

    def name(self, number: int) -> str:
        """Return what people call it."""
        return self.paths[number]

    def take(self, numbers: np.ndarray) -> "FileImages":
        """Return the source of some of the pictures, in the order given."""
        return FileImages(self.root, [self.paths[int(number)] for number in numbers], self.channels)


def read_image(path: Path, channels: int = 3) -> Tensor:
    """Return the picture in a file, (channels, height, width) uint8."""
    from PIL import Image

    if Image.MAX_IMAGE_PIXELS is not None:  # its own limit is lower, and a warning
        Image.MAX_IMAGE_PIXELS = max(Image.MAX_IMAGE_PIXELS, MOST_PIXELS)
    try:
        with Image.open(path) as file:
            if file.width * file.height > MOST_PIXELS:
                raise BrokenImage(f"{path} has {file.width} × {file.height} pixels; the most is {MOST_PIXELS:,}.")
            picture = _eight_bits(_upright(file))
            array = np.array(picture.convert("L" if channels == 1 else "RGB"))
    except BrokenImage:
        raise
    except FileNotFoundError:
        raise BrokenImage(f"{path} is not there.") from None
    except Exception as wrong:  # whatever a decoder makes of damaged bytes
        reason = " ".join(str(wrong).split()).rstrip(".") or type(wrong).__name__
        raise BrokenImage(f"{path} cannot be read as a picture ({reason}).") from None
    return torch.from_numpy(array[None] if channels == 1 else array.transpose(2, 0, 1).copy())


def _upright(picture):
    """Return a picture turned as its orientation mark says; the rest of its EXIF may be damaged."""
    from PIL.ExifTags import Base
    from PIL.Image import Transpose

    picture.load()
    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    turn = turns.get(picture.getexif().get(Base.Orientation))
    return picture if turn is None else picture.transpose(turn)


def _eight_bits(picture):
    """Return a picture without transparency and with 8 bits a channel."""
    from PIL import Image

    if picture.mode.startswith("I"):  # I;16, or I with 16 bits in use
        return Image.fromarray((np.array(picture).clip(0, 65535) >> 8).astype(np.uint8))
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        on_white = Image.new("RGBA", picture.size, "white")
        on_white.alpha_composite(picture.convert("RGBA"))
        return on_white
    return picture
