"""What training changes in an image at random, so that the embedder does not learn it.

    none     the middle square, as in evaluation
    shift    the square from a random place: out of the image's margin, or of a rim of an eighth in black around it
    crop     a random part of the image, from a fifth to all of its area and 3:4 to 4:3 in shape, made that square
    photo    a window of random size, shape, place and a small angle; light, contrast and color
    strong   more of the same, from a half of each side on, and of every fourth image a rectangle erased
    drawing  a window of random size, shape, place and a small angle, never mirrored: symbols have a right way round

All but `none` and `drawing` also mirror every second image, left to right, where the dataset allows it. All chances of
a batch are drawn at once, a row of them for each image, by a generator that is seeded by (seed, epoch, batch): what
happens to an image depends on its place in the batch, and not on workers, on ranks or on when a run was resumed.

Cost: `shift` of images that have one size is one indexing operation for the whole batch; the others are one
sampling of the whole batch and a few float32 copies of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from shadowmetric.app.data.changes.colors import change_colors, erase
from shadowmetric.app.data.changes.windows import random_windows, show
from shadowmetric.app.data.preprocessing import Preprocessing, middle

Kind = Literal["none", "shift", "crop", "photo", "strong", "drawing"]
KINDS: tuple[Kind, ...] = get_args(Kind)
AUTO = "auto"  # photo or drawing, as `image_kind` finds the images
RIM = 8  # the size divided by this is black rim
CHANCES = 14  # of an image: windows take 6, colors 3, erasing 5
LEAST_AREA = 0.2
LEAST_RATIO, LARGEST_RATIO = 3 / 4, 4 / 3


@dataclass(frozen=True, kw_only=True)
class Strength:
    """How far random windows and colors may go."""

    zoom: tuple[float, float]  # sides of a window, in sides of the square that evaluation sees
    ratio: float  # the widest window, width to height
    degrees: float
    shift: float  # out of the image, in sides of the square
    light: float = 0.0  # of brightness and contrast, up and down
    color: float = 0.0
    erased: float = 0.0  # share of the images


STRENGTHS: dict[str, Strength] = {
    "photo": Strength(zoom=(0.85, 1.1), ratio=1.1, degrees=5.0, shift=0.08, light=0.15, color=0.15),
    "strong": Strength(zoom=(0.5, 1.1), ratio=4 / 3, degrees=10.0, shift=0.08, light=0.3, color=0.3, erased=0.25),
    "drawing": Strength(zoom=(0.85, 1.15), ratio=1.15, degrees=10.0, shift=0.08),
}


@dataclass(frozen=True)
class Augmentation:
    """What is changed at random, and whether images may be mirrored."""

    kind: str
    mirror: bool

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"augmentation is {self.kind!r}; choose one of {', '.join(KINDS)}.")

    def __call__(self, images: Sequence[Tensor] | Tensor, shape: Preprocessing, seed: int, first: int = 0) -> Tensor:
        """Return (images, channels, size, size) uint8 of images that were resized already.

        first: the place in its batch of the first image, where they are a part of one.
        """
        if self.kind == "none":
            return _stack([middle(image, shape.size) for image in images])
        random = torch.Generator().manual_seed(seed)
        chances = torch.rand(first + len(images), CHANCES, generator=random)[first:]
        if self.kind in STRENGTHS:
            return change(images, shape.size, chances, STRENGTHS[self.kind], self.mirror and self.kind != "drawing")
        if self.kind == "crop":
            parts = zip(images, chances, strict=True)
            squares = _stack([random_part(image, shape.size, chance) for image, chance in parts])
        else:
            squares = random_shift(images, shape.size, chances)
        if self.mirror:
            mirrored = chances[:, -1] < 0.5
            squares = torch.where(mirrored[:, None, None, None], squares.flip(-1), squares)
        return squares


NONE = Augmentation("none", mirror=False)


def change(images: Sequence[Tensor] | Tensor, size: int, chances: Tensor, strength: Strength, mirror: bool) -> Tensor:
    """Return random windows on images, in other light and color and partly erased, (images, channels, size, size)."""
    squares = look_through(images, size, chances, strength, mirror)
    if strength.light or strength.color:
        squares = change_colors(squares, chances[:, 6:9], light=strength.light, color=strength.color)
    if strength.erased:
        squares = erase(squares, chances[:, 9:], strength.erased)
    return squares.round_().clamp_(0, 255).to(torch.uint8)


def look_through(
    images: Sequence[Tensor] | Tensor, size: int, chances: Tensor, strength: Strength, mirror: bool
) -> Tensor:
    """Return what random windows show, (images, channels, size, size) float32."""
    if not isinstance(images, Tensor):
        if len({image.shape for image in images}) > 1:
            each = zip(images, chances, strict=True)
            return torch.cat(
                [look_through(image[None], size, chance[None], strength, mirror) for image, chance in each]
            )
        images = _stack(images)
    windows = random_windows(
        chances[:, :6],
        (images.shape[-2], images.shape[-1]),
        size,
        zoom=strength.zoom,
        ratio=strength.ratio,
        degrees=strength.degrees,
        shift=strength.shift,
        mirror=mirror,
    )
    return show(images, windows, size)


def random_shift(images: Sequence[Tensor] | Tensor, size: int, chances: Tensor) -> Tensor:
    """Return squares cut at random places; images that are no larger than the square get a rim first."""
    if isinstance(images, Tensor):
        rim = size // RIM if min(images.shape[-2:]) <= size else 0
        framed = torch.nn.functional.pad(images, (rim,) * 4)
        count, height, width = len(framed), *framed.shape[-2:]
        top = (chances[:, :1] * (height - size + 1)).long() + torch.arange(size)  # (images, size)
        left = (chances[:, 1:2] * (width - size + 1)).long() + torch.arange(size)
        each, channel = torch.arange(count)[:, None, None, None], torch.arange(framed.shape[1])[:, None, None]
        return framed[each, channel, top[:, None, :, None], left[:, None, None, :]]
    return torch.cat([random_shift(image[None], size, chances[[row]]) for row, image in enumerate(images)])


def random_part(image: Tensor, size: int, chances: Tensor) -> Tensor:
    """Return a part of random area, shape and place as a square."""
    from torchvision.transforms.v2.functional import resized_crop

    height, width = image.shape[-2:]
    area, shape, down, right = chances[:4].tolist()
    area = height * width * (LEAST_AREA + (1 - LEAST_AREA) * area)
    ratio = LEAST_RATIO * (LARGEST_RATIO / LEAST_RATIO) ** shape
    part_width = min(width, max(1, round((area * ratio) ** 0.5)))
    part_height = min(height, max(1, round((area / ratio) ** 0.5)))
    top, left = int(down * (height - part_height + 1)), int(right * (width - part_width + 1))
    return resized_crop(image, top, left, part_height, part_width, [size, size])


def _stack(images: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(images))
