"""Do two pictures show the same?"""

from pathlib import Path

import numpy as np

from shadowmetric.device.pictures import open_picture
from shadowmetric.device.threshold import Calibration, Decision
from shadowmetric.serving.model import Model

RATE = 0.01  # of false accepts


def verify(model: Model, calibration: Calibration, first: Path, second: Path, rate: float = RATE) -> Decision:
    """Return the decision on two pictures, at the threshold that accepts at most so many pairs of two classes."""
    shape = model.about.shape
    rows = model.embed(np.stack([shape.square(open_picture(path), str(path)) for path in (first, second)]))
    cosine = float(np.clip(rows[0] @ rows[1], -1, 1))
    return calibration.decide(cosine, rate)
