"""Fewer images of each class, for a quick trial: the same ones whenever the same number is asked for."""

from dataclasses import replace

import numpy as np

from shadowmetric.app.data.dataset import Dataset, Split

ORDER = 0  # seed of the order in which images are kept; not a run's own, so that every run is judged on the same ones


def limit_per_class(dataset: Dataset, most: int | None) -> Dataset:
    """Return the dataset with at most so many images of a class in each part, and a note that says so."""
    if most is None:
        return dataset
    parts = {name: split.take(first_of_each(split, most)) for name, split in dataset.parts().items()}
    counts = ", ".join(
        f"{len(parts[name]):,} of {len(split):,} images of {name}" for name, split in dataset.parts().items()
    )
    note = f"At most {most} images of a class are kept: {counts}."
    return replace(dataset, **parts, notes=(*dataset.notes, note))


def first_of_each(split: Split, most: int) -> np.ndarray:
    """Return the numbers of the first images of each class in a fixed random order, ascending."""
    order = np.random.default_rng(ORDER).permutation(len(split))
    labels = split.labels[order]
    by_class = np.argsort(labels, kind="stable")
    begins = np.searchsorted(labels[by_class], labels[by_class])  # where each one's class begins
    return np.sort(order[by_class[np.arange(len(labels)) - begins < most]])
