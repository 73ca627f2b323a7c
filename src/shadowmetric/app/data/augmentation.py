"""What training changes in an image at random, so that the embedder does not learn it.

    none     the middle square, as in evaluation
    shift    the square from a random place: out of the image's margin, or of a rim of an eighth in black around it
    crop     a random part of the image, from a fifth to all of its area and 3:4 to 4:3 in shape, made that square

Each but `none` also mirrors every second image, left to right, where the dataset allows it. All chances of a batch
are drawn at once, five for each image, by a generator that is seeded by (seed, epoch, batch): what happens to an
image depends on its place in the batch, and not on workers, on ranks or on when a run was resumed.

Cost: `shift` of images that have one size is one indexing operation for the whole batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from shadowmetric.app.data.preprocessing import Preprocessing, middle

KINDS = ("none", "shift", "crop")
RIM = 8  # the size divided by this is black rim
CHANCES = 5  # of an image: four for its place and shape, one for its mirror image
LEAST_AREA = 0.2
LEAST_RATIO, LARGEST_RATIO = 3 / 4, 4 / 3


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
