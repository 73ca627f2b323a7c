"""What the network sees in training: eight images as evaluation sees them, and below each what chance made of it.

The images stand evenly in the training part. The changes are those of the run's settings, drawn with the run's seed.
"""

import numpy as np
import torch

from shadowmetric.app.data.augmentation import NONE, Augmentation
from shadowmetric.app.data.images import ArrayImages
from shadowmetric.app.data.thumbnails import Sheet, sheet_of
from shadowmetric.app.training.preparation import Parts

COUNT = 8  # images


def augmented_of(parts: Parts, side: int) -> Sheet | None:
    """Return the sheet, eight images above and eight below; None where training changes nothing."""
    kind = parts.settings.augment or NONE.kind
    if kind == NONE.kind:
        return None
    train = parts.train.images
    numbers = np.unique(np.linspace(0, len(train) - 1, min(COUNT, len(train))).astype(int)).tolist()
    images = [train.read(number) for number in numbers]
    changes = Augmentation(kind, parts.dataset.mirrors)
    rows = [NONE(images, parts.shape, 0), changes(images, parts.shape, parts.settings.seed)]
    squares = ArrayImages(torch.cat(rows))
    return sheet_of(squares, range(len(squares)), side, columns=len(numbers))
