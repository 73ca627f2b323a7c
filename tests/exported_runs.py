"""Small runs on the digits, and their images in files."""

import numpy as np
from PIL import Image

from shadowmetric.app.data.catalogue import open_dataset
from shadowmetric.app.training.loop import train
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings

IMAGES = 200  # that models are compared on


def quick_run(folder, **more):
    """Train for a moment."""
    given = {"device": "cpu", "epochs": 2, "batches": 5, "batch": 32, "per_class": 4, "dim": 16, **more}
    train(TrainSettings(data="digits", **given), folder)
    return Run(folder)


def write_digits(folder, count=4):
    """Write images of the test split, so many of each digit, in a folder a class."""
    split = open_dataset("digits").test
    for label in np.unique(split.labels):
        (folder / f"digit {label}").mkdir(parents=True)
        for place, number in enumerate(np.flatnonzero(split.labels == label)[:count]):
            pixels = split.images.read(int(number)).numpy()[0]
            Image.fromarray(np.kron(pixels, np.ones((2, 2), np.uint8))).save(folder / f"digit {label}" / f"{place}.png")
    return folder
