"""From an image to the square of pixels that a model takes.

    resize   the short side becomes `resize` pixels, the long one in proportion (antialiased, bilinear)
    crop     the middle square of `size` pixels

Training resizes with torchvision, this with pillow: the same filter, apart by at most 1 of 255 in some pixels. Pillow
is imported when the first image comes: whoever only names datasets need not wait for it.

Memory: the resized image.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import BrokenImage

MOST_PIXELS = 2**27  # of one file: more is refused unread, as a decompression bomb


@dataclass(frozen=True)
class Shape:
    """What a model takes: the side of the square, of the short side before the cut, and the channels."""

    size: int
    resize: int
    channels: int

    def __post_init__(self):
        if not 1 <= self.size <= self.resize:
            raise ValueError(f"size is {self.size} and resize {self.resize}; resize must be at least size, size 1.")
        if self.channels not in (1, 3):
            raise ValueError(f"channels is {self.channels}; it must be 1 (gray) or 3 (color).")

    def square(self, image: Any, name: str = "an image") -> np.ndarray:
        """Return the middle square of an image, (channels, size, size) uint8; `name` stands in the refusal."""
        image = image.convert("L" if self.channels == 1 else "RGB")
        from PIL.Image import Resampling

        width, height = image.size
        wanted = self.resized_size(width, height, name)
        if image.size != wanted:
            image = image.resize(wanted, Resampling.BILINEAR)
        left, top = ((side - self.size) // 2 for side in image.size)
        pixels = np.asarray(image.crop((left, top, left + self.size, top + self.size)))
        return pixels[None] if self.channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))

    def resized_size(self, width: int, height: int, name: str = "an image") -> tuple[int, int]:
        """Return width and height of an image whose short side is `resize`; a strip that gets too long is refused."""
        scale = self.resize / min(width, height)
        wanted = max(self.resize, round(width * scale)), max(self.resize, round(height * scale))
        if wanted[0] * wanted[1] > MOST_PIXELS:
            raise BrokenImage(
                f"{name} has {width} × {height} pixels, which is too narrow: at {self.resize} pixels of its short side "
                f"it would have more than {MOST_PIXELS:,}."
            )
        return wanted
