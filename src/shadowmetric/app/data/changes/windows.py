"""Windows on images: turned, stretched, mirrored and moved, all of a batch in one sampling.

A window of width w and height h around (x, y), turned by an angle t, shows at the place (u, v) of its square, both
from -1 to 1, what the image has at

    x + (w / 2) u cos t - (h / 2) v sin t,    y + (w / 2) u sin t + (h / 2) v cos t

between pixels by bilinear interpolation, and beyond the edge the pixel of the edge. A mirrored window has -u for u.
Angle, shape and place of an image are its own: torchvision's `affine` and `resized_crop` do the same to one image, and
take one choice for a whole batch.

Cost: a float32 copy of the images, the grid of two numbers for each pixel, and the squares.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import grid_sample


class Windows(NamedTuple):
    """A window for each image, (images,) each; places and sides in pixels of the image."""

    x: Tensor
    y: Tensor
    width: Tensor
    height: Tensor
    angle: Tensor  # radians
    mirrored: Tensor  # bool


def show(images: Tensor, windows: Windows, size: int) -> Tensor:
    """Return what windows show, (images, channels, size, size) float32, of images (images, channels, height, width)."""
    height, width = images.shape[-2:]
    place = (2 * torch.arange(size) + 1) / size - 1  # (size,)
    across = (
        torch.where(windows.mirrored, -windows.width, windows.width)[:, None, None] / 2 * place
    )  # (images, 1, size)
    down = windows.height[:, None, None] / 2 * place[:, None]  # (images, size, 1)
    cosine, sine = (part(windows.angle)[:, None, None] for part in (torch.cos, torch.sin))
    x = windows.x[:, None, None] + across * cosine - down * sine  # (images, size, size)
    y = windows.y[:, None, None] + across * sine + down * cosine
    grid = torch.stack([2 * x / width - 1, 2 * y / height - 1], dim=3)
    return grid_sample(images.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)


def between(chance: Tensor, least: float, most: float) -> Tensor:
    """Return values from least to most, evenly."""
    return least + (most - least) * chance


def random_windows(
    chances: Tensor,  # (images, 6)
    shape: tuple[int, int],
    size: int,
    *,
    zoom: tuple[float, float],
    ratio: float,
    degrees: float,
    shift: float,
    mirror: bool,
) -> Windows:
    """Return windows of random size, shape, angle and place on images of one shape (height, width).

    zoom: the least and the largest side, in sides of the square that evaluation sees. ratio: the widest a window is,
    width to height, and the highest. shift: how far a window may stand out of the image, in sides of the square.
    """
    height, width = shape
    side = size * between(chances[:, 0], *zoom)
    stretch = torch.exp(between(chances[:, 1], -0.5, 0.5) * math.log(ratio))
    wide, high = side * stretch, side / stretch
    room = [((whole - part) / 2).clamp_min(0) + shift * size for whole, part in ((width, wide), (height, high))]
    x = width / 2 + between(chances[:, 2], -1.0, 1.0) * room[0]
    y = height / 2 + between(chances[:, 3], -1.0, 1.0) * room[1]
    angle = between(chances[:, 4], -1.0, 1.0) * math.radians(degrees)
    return Windows(x, y, wide, high, angle, chances[:, 5] < (0.5 if mirror else 0))
