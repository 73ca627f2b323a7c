"""What training changes in a picture at random, so that the embedder does not learn it.

    none     the middle square, as in evaluation
    shift    the square from a random place: out of the picture's margin, or of a rim of an eighth in black around it
    crop     a random part of the picture, from a fifth to all of its area and 3:4 to 4:3 in shape, made that square

Each but `none` also mirrors every second picture, left to right, where the dataset allows it. The generator of a
batch is seeded by (seed, epoch, batch): a picture's random changes don't depend on workers, nor on when a run was
resumed.

Cost: `shift` of pictures that have one size is one indexing operation for the whole batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from shadowmetric.data.preprocessing import Preprocessing, middle

KINDS = ("none", "shift", "crop")
RIM = 8  # the size divided by this is black rim
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

    def __call__(self, pictures: Sequence[Tensor] | Tensor, shape: Preprocessing, seed: int) -> Tensor:
        """Return (pictures, channels, size, size) uint8 of pictures that were resized already."""
        if self.kind == "none":
            return _stacked([middle(picture, shape.size) for picture in pictures])
        random = torch.Generator().manual_seed(seed)
        if self.kind == "crop":
            squares = _stacked([random_part(picture, shape.size, random) for picture in pictures])
        else:
            squares = shifted(pictures, shape.size, random)
        if self.mirror:
            mirrored = torch.rand(len(squares), generator=random) < 0.5
            squares = torch.where(mirrored[:, None, None, None], squares.flip(-1), squares)
        return squares


NONE = Augmentation("none", mirror=False)


def shifted(pictures: Sequence[Tensor] | Tensor, size: int, random: torch.Generator) -> Tensor:
    """Return squares cut at random places; pictures that are no larger than the square get a rim first."""
    if isinstance(pictures, Tensor):
        rim = size // RIM if min(pictures.shape[-2:]) <= size else 0
        framed = torch.nn.functional.pad(pictures, (rim,) * 4)
        count, height, width = len(framed), *framed.shape[-2:]
        top = torch.randint(height - size + 1, (count, 1), generator=random) + torch.arange(size)  # (pictures, size)
        left = torch.randint(width - size + 1, (count, 1), generator=random) + torch.arange(size)
        each, channel = torch.arange(count)[:, None, None, None], torch.arange(framed.shape[1])[:, None, None]
        return framed[each, channel, top[:, None, :, None], left[:, None, None, :]]
    return torch.cat([shifted(picture[None], size, random) for picture in pictures])


def random_part(picture: Tensor, size: int, random: torch.Generator) -> Tensor:
    """Return a part of random area, shape and place as a square."""
    from torchvision.transforms.v2.functional import resized_crop

    height, width = picture.shape[-2:]
    area, shape, down, right = torch.rand(4, generator=random).tolist()
    area = height * width * (LEAST_AREA + (1 - LEAST_AREA) * area)
    ratio = LEAST_RATIO * (LARGEST_RATIO / LEAST_RATIO) ** shape
    part_width = min(width, max(1, round((area * ratio) ** 0.5)))
    part_height = min(height, max(1, round((area / ratio) ** 0.5)))
    top, left = int(down * (height - part_height + 1)), int(right * (width - part_width + 1))
    return resized_crop(picture, top, left, part_height, part_width, [size, size])


def _stacked(pictures: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(pictures))
