"""Do two images show the same?"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shadowmetric.app.serving.model import Model
from shadowmetric.errors import Mistake
from shadowmetric.runtime.exact_cosines import cosine
from shadowmetric.runtime.images import open_image
from shadowmetric.runtime.threshold import Calibration, Decision


@dataclass(frozen=True)
class Verified(Decision):
    """The decision, and what the threshold was measured on."""

    calibration: Calibration


def cosine_of(model: Model, first: Path, second: Path) -> float:
    """Return the cosine of the embeddings of two images."""
    shape = model.about.shape
    rows = model.embed(np.stack([shape.square(open_image(path), str(path)) for path in (first, second)]))
    return cosine(rows[0], rows[1])


def check_shares(false_accept_rate: float | None, prior: float) -> None:
    """Refuse shares that are none."""
    if false_accept_rate is not None and not 0 < false_accept_rate <= 1:
        raise Mistake(f"--false-accept-rate is {false_accept_rate:g}; it is a share of pairs, such as 0.01.")
    if not 0 < prior < 1:
        raise Mistake(f"--prior is {prior:g}; it is the share of your pairs that show the same, such as 0.1.")
