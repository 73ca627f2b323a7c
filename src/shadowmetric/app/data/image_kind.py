"""Whether images are photos or drawings, by a look at some of them; it decides what training changes at random.

    drawing   no color, and one level of gray covers a quarter of the image or more: ink on paper, a symbol on a ground
    photo     all else

Without color: the channels of a pixel lie no more than 8 levels apart, in the mean of an image. A level of gray is one
of 16, so that a scanner's noise does not split the paper. Both are the median of up to 64 images, evenly from the set.

A drawing has a right way round and no light that falls on it: a mirrored letter is another letter.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from shadowmetric.app.data.images import ImageSource
from shadowmetric.errors import BrokenImage

ImageKind = Literal["photo", "drawing"]
LOOKED_AT = 64  # images
COLORLESS = 8.0  # levels between the channels of a pixel
GROUND = 0.25  # of the pixels
LEVELS = 16


@dataclass(frozen=True)
class Look:
    """What images look like, as medians."""

    color: float  # levels between the channels of a pixel
    ground: float  # share of the pixels that the commonest level of gray covers

    @property
    def kind(self) -> ImageKind:
        """Return what the rule makes of it."""
        return "drawing" if self.color <= COLORLESS and self.ground >= GROUND else "photo"

    def sentence(self) -> str:
        """Say what was seen, and what follows."""
        color = "color" if self.color > COLORLESS else "no color"
        ground = f"one level covers {100 * self.ground:.0f} % of an image"
        return f"The images are taken for {self.kind}s: {color}, {ground}"


def look_at(images: ImageSource) -> Look:
    """Return what some of the images look like; those that cannot be read are passed over."""
    seen: list[tuple[float, float]] = []
    for number in np.unique(np.linspace(0, len(images) - 1, min(LOOKED_AT, len(images))).astype(int)).tolist():
        try:
            seen.append(look_at_one(images.read(number)))
        except BrokenImage:
            continue
    color, ground = np.median(seen, axis=0).tolist() if seen else (0.0, 0.0)
    return Look(color, ground)


def look_at_one(image: Tensor) -> tuple[float, float]:
    """Return how far the channels of a pixel lie apart, and the share of the commonest level of gray."""
    color = float((image.amax(0).float() - image.amin(0).float()).mean())
    levels = (image.float().mean(0) * (LEVELS / 256)).long().flatten()
    return color, float(levels.bincount(minlength=LEVELS).max()) / len(levels)
