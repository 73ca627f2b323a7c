"""Light, contrast and color of images, and rectangles that are taken out of them: of each image its own.

    brightness b    b p                            p: pixels
    contrast c      c p + (1 - c) mean(gray(p))
    saturation s    s p + (1 - s) gray(p)          gray(p) = 0.2989 r + 0.587 g + 0.114 b; gray images have none
    erasing         a rectangle gets the mean color of the image

The first three are torchvision's `adjust_*`, in the order of its ColorJitter, but that values are cut to what a pixel
can be once, at the end.

Cost: a few float32 copies of the images.
"""

import torch
from torch import Tensor

from shadowmetric.app.data.changes.windows import between

GRAY = (0.2989, 0.587, 0.114)
ERASED_AREA = (0.02, 0.2)  # of the image
ERASED_RATIO = 2.0


def gray(images: Tensor) -> Tensor:
    """Return the brightness of each pixel, (images, 1, height, width)."""
    if images.shape[1] == 1:
        return images
    red, green, blue = (images[:, [place]] for place in range(3))
    return GRAY[0] * red + GRAY[1] * green + GRAY[2] * blue


def exact_mean(images: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return means to the 256th of a level, kept as dimensions; exact, so that no image's depends on its batch."""
    return (images * 256).round().double().mean(dims, keepdim=True).div(256).float()


def change_colors(images: Tensor, chances: Tensor, *, light: float, color: float) -> Tensor:
    """Return float images with other brightness and contrast (1 - light to 1 + light) and saturation (1 ± color)."""
    brightness, contrast = (between(chances[:, place], 1 - light, 1 + light)[:, None, None, None] for place in (0, 1))
    images = images * brightness
    mean = exact_mean(gray(images), (1, 2, 3))
    images = contrast * images + (1 - contrast) * mean
    if images.shape[1] == 1 or color == 0:
        return images
    saturation = between(chances[:, 2], 1 - color, 1 + color)[:, None, None, None]
    return saturation * images + (1 - saturation) * gray(images)


def erase(images: Tensor, chances: Tensor, share: float) -> Tensor:
    """Return images (images, channels, size, size) of which the share has lost a rectangle."""
    size = images.shape[-1]
    area = between(chances[:, 1], *ERASED_AREA)
    stretch = ERASED_RATIO ** between(chances[:, 2], -0.5, 0.5)
    place = (torch.arange(size) + 0.5) / size

    def inside(length: Tensor, chance: Tensor) -> Tensor:  # (images, size)
        first = (chance * (1 - length))[:, None]
        return (first <= place) & (place < first + length[:, None])

    across = inside(area.sqrt() * stretch, chances[:, 3])
    down = inside(area.sqrt() / stretch, chances[:, 4])
    gone = (chances[:, 0] < share)[:, None, None] & down[:, :, None] & across[:, None, :]
    return torch.where(gone[:, None], exact_mean(images, (2, 3)), images)
