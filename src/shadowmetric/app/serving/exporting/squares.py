"""The images of a run's dataset as serving sees them: read from their files, upright, squared by pillow.

Training resizes with torchvision, serving with pillow, apart by at most 1 of 255 in some pixels; what is measured
for serving must use serving's pixels. Images that came in an array are cut as training cuts them: they have no
other pixels.

Memory: one batch of squares.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from shadowmetric.app.data.catalogue import open_dataset
from shadowmetric.app.data.dataset import Dataset, Split
from shadowmetric.app.data.images import FileImages, ImageSource
from shadowmetric.app.data.preprocessing import Preprocessing
from shadowmetric.app.data.thinning import limit_per_class
from shadowmetric.app.training.runs.run import Run
from shadowmetric.errors import BrokenImage
from shadowmetric.runtime.images import Shape, open_image


def dataset_of(run: Run, data_root: Path | None = None) -> Dataset:
    """Return the dataset that a run was trained on, its images still in their files; data_root: where it is now."""
    settings = run.settings()
    root = settings.data_root if data_root is None else data_root
    dataset = open_dataset(settings.data, root, allow_partial=settings.allow_partial, split=settings.split)
    return limit_per_class(dataset, settings.most_per_class)


def some_of(split: Split, most: int, seed: int = 0) -> Split:
    """Return at most so many images, drawn by the seed, in the order of the split."""
    if len(split) <= most:
        return split
    return split.take(np.sort(np.random.default_rng(seed).permutation(len(split))[:most]))


def some_of_each(split: Split, most: int, seed: int = 0) -> Split:
    """Return at most so many images, about as many of each class, drawn by the seed, in the order of the split.

    Two of a class at least, else retrieval would have nothing to find: of many small classes only some are drawn.
    """
    if len(split) <= most:
        return split
    random = np.random.default_rng(seed)
    classes = random.permutation(np.unique(split.labels))
    share = max(2, most // len(classes))
    indices = np.empty(0, np.int64)
    for label in classes:
        drawn = random.permutation(np.flatnonzero(split.labels == label))[:share]
        if len(indices) + len(drawn) <= most:
            indices = np.concatenate([indices, drawn])
    return split.take(np.sort(indices))


def square_of(images: ImageSource, number: int, shape: Shape) -> np.ndarray:
    """Return the square of one image, (channels, size, size) uint8."""
    if isinstance(images, FileImages):
        return shape.square(open_image(Path(images.root) / images.paths[number]))
    cut = Preprocessing(shape.size, shape.resize, shape.channels)
    return cut(images.read(number)).contiguous().numpy()


def squares_of(
    images: ImageSource, shape: Shape, batch: int, *, skip_broken: bool = False
) -> Iterator[tuple[list[int], np.ndarray]]:
    """Yield batches of squares with the numbers of their images, in order."""
    numbers: list[int] = []
    squares: list[np.ndarray] = []
    for number in range(len(images)):
        try:
            squares.append(square_of(images, number, shape))
        except BrokenImage:
            if not skip_broken:
                raise
            continue
        numbers.append(number)
        if len(squares) == batch:
            yield numbers, np.stack(squares)
            numbers, squares = [], []
    if squares:
        yield numbers, np.stack(squares)
