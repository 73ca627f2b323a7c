"""Features in the place of images: what a frozen backbone gave for each, once and for all.

A split of these goes wherever a split of images goes: batches are drawn and parts are taken alike. A batch then holds
rows, which the embedder gives to its head.

Memory: the rows, (images, features) float32; parts that are taken are copies.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Pooled rows of a backbone."""

    rows: Tensor  # (images, features) float32
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.rows)

    def read(self, number: int) -> Tensor:
        """Return the row of an image, (features,) float32."""
        return self.rows[number]

    def name(self, number: int) -> str:
        """Return what people call the image."""
        return self.names[number]

    def take(self, numbers: np.ndarray) -> "FeatureRows":
        """Return the rows of some of the images, in the order given."""
        places = np.asarray(numbers, np.int64)
        return FeatureRows(self.rows[torch.from_numpy(places)], [self.names[int(place)] for place in places])
