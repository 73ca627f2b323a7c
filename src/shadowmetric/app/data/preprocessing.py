"""From a picture of any size to the square that an embedder takes.

    resize   the short side becomes `resize` pixels, the long one in proportion (antialiased, bilinear)
    crop     the middle square of `size` pixels; training cuts elsewhere, see `augmentation`

Small pictures keep their size: where the short side is at most 128 pixels in the middle of the set, size and resize
are that side. Larger ones are brought to 256 and cut to 224. Pixels stay uint8: the embedder scales and normalises
them, so that whatever runs it later needs this page and nothing else.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shadowmetric.app.data.images import ImageSource
from shadowmetric.errors import BrokenImage
from shadowmetric.runtime.shape import Shape

SMALL = 128  # pixels of the short side
LOOKED_AT = 31  # pictures, to learn how large they are
SIZE, RESIZE = 224, 256


@dataclass(frozen=True)
class Preprocessing(Shape):
    """Size of the square, of the short side before the cut, and the number of channels; for tensors."""

    def __call__(self, picture: Tensor) -> Tensor:
        """Return the middle square of a picture, (channels, size, size) uint8."""
        return middle(self.resized(picture), self.size)

    def resized(self, picture: Tensor) -> Tensor:
        """Return the picture with the right channels and short side; itself if it has both."""
        picture = with_channels(picture, self.channels)
        height, width = picture.shape[-2:]
        if min(height, width) == self.resize:
            return picture
        from torchvision.transforms.v2.functional import resize

        width, height = self.resized_size(width, height)
        return resize(picture, [height, width])


def preprocessing_for(
    images: ImageSource, size: int | None = None, resize: int | None = None, channels: int | None = None
) -> Preprocessing:
    """Return what suits the pictures, with the size, short side and channels that are asked for, if any are."""
    sides, own_channels = _look(images)
    native = int(np.median(sides))
    if size is None:
        size = min(native, resize or native) if native <= SMALL else min(SIZE, resize or SIZE)
    if resize is None:
        resize = size if native <= SMALL else round(size * RESIZE / SIZE)
    return Preprocessing(size, resize, channels or own_channels)


def middle(picture: Tensor, size: int) -> Tensor:
    """Return the middle square."""
    height, width = picture.shape[-2:]
    top, left = (height - size) // 2, (width - size) // 2
    return picture[..., top : top + size, left : left + size]


def with_channels(picture: Tensor, channels: int) -> Tensor:
    """Return the picture in grey or in colour."""
    if picture.shape[0] == channels:
        return picture
    if channels == 3:
        return picture.expand(3, -1, -1)
    red, green, blue = picture.float()
    return (0.299 * red + 0.587 * green + 0.114 * blue).round().to(torch.uint8)[None]


def _look(images: ImageSource) -> tuple[list[int], int]:
    """Return the short sides of some pictures, and the channels of the first."""
    found, refusal = [], BrokenImage("there are no pictures.")
    for number in np.unique(np.linspace(0, len(images) - 1, min(LOOKED_AT, len(images))).astype(int)).tolist():
        try:
            found.append(images.read(number))
        except BrokenImage as broken:
            refusal = broken
    if not found:
        raise refusal
    return [min(picture.shape[-2:]) for picture in found], found[0].shape[0]
