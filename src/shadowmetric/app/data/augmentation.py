"""What training changes in a picture at random, so that the embedder does not learn it.

    none     the middle square, as in evaluation
    shift    the square from a random place: out of the picture's margin, or of a rim of an eighth in black around it
    crop     a random part of the picture, from a fifth to all of its area and 3:4 to 4:3 in shape, made that square

Each but `none` also mirrors every second picture, left to right, where the dataset allows it. All chances of a batch
are drawn at once, five for each picture, by a generator that is seeded by (seed, epoch, batch): what happens to a
picture depends on its place in the batch, and not on workers, on ranks or on when a run was resumed.

Cost: `shift` of pictures that have one size is one indexing operation for the whole batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from shadowmetric.app.data.preprocessing import Preprocessing, middle

KINDS = ("none", "shift", "crop")
RIM = 8  # the size divided by this is black rim
CHANCES = 5  # of a picture: four for its place and shape, one for its mirror image
LEAST_AREA = 0.2
LEAST_RATIO, LARGEST_RATIO = 3 / 4, 4 / 3


@dataclass(frozen=True)
class Augmentation:
    """What is changed at random, and whether pictures may be mirrored."""

    kind: str
    mirror: bool

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"augmentation is {self.kind!r}; choose one of {', '.join(KINDS)}.")

    def __call__(self, pictures: Sequence[Tensor] | Tensor, shape: Preprocessing, seed: int, first: int = 0) -> Tensor:
        """Return (pictures, channels, size, size) uint8 of pictures that were resized already.

        first: the place in its batch of the first picture, where they are a part of one.
        """
        if self.kind == "none":
            return _stacked([middle(picture, shape.size) for picture in pictures])
        random = torch.Generator().manual_seed(seed)
        chances = torch.rand(first + len(pictures), CHANCES, generator=random)[first:]
        if self.kind == "crop":
            parts = zip(pictures, chances, strict=True)
            squares = _stacked([random_part(picture, shape.size, chance) for picture, chance in parts])
        else:
            squares = shifted(pictures, shape.size, chances)
        if self.mirror:
            mirrored = chances[:, -1] < 0.5
            squares = torch.where(mirrored[:, None, None, None], squares.flip(-1), squares)
        return squares


NONE = Augmentation("none", mirror=False)


def shifted(pictures: Sequence[Tensor] | Tensor, size: int, chances: Tensor) -> Tensor:
    """Return squares cut at random places; pictures that are no larger than the square get a rim first."""
    if isinstance(pictures, Tensor):
        rim = size // RIM if min(pictures.shape[-2:]) <= size else 0
        framed = torch.nn.functional.pad(pictures, (rim,) * 4)
        count, height, width = len(framed), *framed.shape[-2:]
        top = (chances[:, :1] * (height - size + 1)).long() + torch.arange(size)  # (pictures, size)
        left = (chances[:, 1:2] * (width - size + 1)).long() + torch.arange(size)
        each, channel = torch.arange(count)[:, None, None, None], torch.arange(framed.shape[1])[:, None, None]
        return framed[each, channel, top[:, None, :, None], left[:, None, None, :]]
    return torch.cat([shifted(picture[None], size, chances[[row]]) for row, picture in enumerate(pictures)])


def random_part(picture: Tensor, size: int, chances: Tensor) -> Tensor:
    """Return a part of random area, shape and place as a square."""
    from torchvision.transforms.v2.functional import resized_crop

    height, width = picture.shape[-2:]
    area, shape, down, right = chances[:4].tolist()
    area = height * width * (LEAST_AREA + (1 - LEAST_AREA) * area)
    ratio = LEAST_RATIO * (LARGEST_RATIO / LEAST_RATIO) ** shape
    part_width = min(width, max(1, round((area * ratio) ** 0.5)))
    part_height = min(height, max(1, round((area / ratio) ** 0.5)))
    top, left = int(down * (height - part_height + 1)), int(right * (width - part_width + 1))
    return resized_crop(picture, top, left, part_height, part_width, [size, size])


def _stacked(pictures: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(pictures))
