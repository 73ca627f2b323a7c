"""From an image of any size to the square that an embedder takes.

    resize   the short side becomes `resize` pixels, the long one in proportion (antialiased, bilinear)
    crop     the middle square of `size` pixels; training cuts elsewhere, see `augmentation`

Small images keep their size: where the short side is at most 128 pixels in the middle of the set, size and resize
are that side. Larger ones are brought to 256 and cut to 224. Pixels stay uint8: the embedder scales and normalizes
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
LOOKED_AT = 31  # images, to learn how large they are
SIZE, RESIZE = 224, 256


@dataclass(frozen=True)
class Preprocessing(Shape):
    """Size of the square, of the short side before the cut, and the number of channels; for tensors."""

    def __call__(self, image: Tensor) -> Tensor:
        """Return the middle square of an image, (channels, size, size) uint8."""
        return middle(self.resize_short_side(image), self.size)

    def resize_short_side(self, image: Tensor) -> Tensor:
        """Return the image with the right channels and short side; itself if it has both."""
        image = with_channels(image, self.channels)
        height, width = image.shape[-2:]
        if min(height, width) == self.resize:
            return image
        from torchvision.transforms.v2.functional import resize

        width, height = self.resized_size(width, height)
        return resize(image, [height, width])


def preprocessing_for(
    images: ImageSource, size: int | None = None, resize: int | None = None, channels: int | None = None
) -> Preprocessing:
    """Return what suits the images, with the size, short side and channels that are asked for, if any are."""
    sides, own_channels = _look(images)
    native = int(np.median(sides))
    if size is None:
        size = min(native, resize or native) if native <= SMALL else min(SIZE, resize or SIZE)
    if resize is None:
        resize = size if native <= SMALL else round(size * RESIZE / SIZE)
    return Preprocessing(size, resize, channels or own_channels)


def middle(image: Tensor, size: int) -> Tensor:
    """Return the middle square."""
    height, width = image.shape[-2:]
    top, left = (height - size) // 2, (width - size) // 2
    return image[..., top : top + size, left : left + size]


def with_channels(image: Tensor, channels: int) -> Tensor:
    """Return the image in gray or in color."""
    if image.shape[0] == channels:
        return image
    if channels == 3:
        return image.expand(3, -1, -1)
    red, green, blue = image.float()
    return (0.299 * red + 0.587 * green + 0.114 * blue).round().to(torch.uint8)[None]


def _look(images: ImageSource) -> tuple[list[int], int]:
    """Return the short sides of some images, and the channels of the first."""
    samples, refusal = [], BrokenImage("there are no images.")
    for number in np.unique(np.linspace(0, len(images) - 1, min(LOOKED_AT, len(images))).astype(int)).tolist():
        try:
            samples.append(images.read(number))
        except BrokenImage as broken:
            refusal = broken
    if not samples:
        raise refusal
    return [min(image.shape[-2:]) for image in samples], samples[0].shape[0]
