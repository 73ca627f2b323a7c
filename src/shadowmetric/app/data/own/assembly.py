"""Make a dataset of somebody's own images: the parts are given or drawn, and the kind follows from the classes.

If no part is given, a fifth is held out as the test part, by seed 0: of each class, and two of its images if it has
four, since an image alone has no positive; of the classes, if there are many small ones, as in a shop's catalogue, or
if none has four images. A dataset is zero-shot if training and test have no class in common, and standard otherwise.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from shadowmetric.app.data.dataset import STANDARD, ZERO_SHOT, Dataset, Split
from shadowmetric.app.data.splits import part_classes, part_images
from shadowmetric.errors import DataMistake
from shadowmetric.runtime.counting import count

SHARE, SEED = 0.2, 0  # a fifth
SMALL = 8  # images: a fifth of a class with fewer is not two
PARTED = 4  # images of a class of which two can be trained with and two tested
FEW = 4  # classes of which two can be trained with and two tested
MANY = 25  # classes: enough to train on four fifths of them, and to hold whole ones out of those for validation


UNMEASURABLE = "No class has two test images, so retrieval cannot be measured; give four images or more of a class."


def number_classes(names: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the label of each name, and the names by label: sorted, as numbers if all are whole numbers."""
    known = set(names)
    whole = all(name.isascii() and name.removeprefix("-").isdigit() for name in known)
    classes = sorted(known, key=(lambda name: (int(name), name)) if whole else None)
    place = {name: label for label, name in enumerate(classes)}
    return np.array([place[name] for name in names], dtype=np.int64), tuple(classes)


def assemble(
    name: str, whole: Split, classes: tuple[str, ...], test: np.ndarray | None = None, notes: Iterable[str] = ()
) -> Dataset:
    """Return the dataset of these images; `test` says which are the test part."""
    if len(classes) < 2:
        raise DataMistake(
            f"{name} has {count(len(whole), 'image')} of {count(len(classes), 'class')} "
            f"({', '.join(classes) or 'none'}); give two or more classes."
        )
    notes = [*notes, *lone_classes(whole.labels)]
    if test is None:
        stay, held, what = split_classes(whole.labels)
        notes.append(f"No split is given: {what}, drawn by seed {SEED}, is the test part.")
    else:
        stay, held = np.flatnonzero(~test), np.flatnonzero(test)
    if len(stay) == 0 or len(held) == 0:
        raise DataMistake(
            f"{name} has {count(len(stay), 'training image')} and {count(len(held), 'test image')} in "
            f"{count(len(classes), 'class')}; "
            "give images of both parts, or without a split two images of a class."
        )
    train, held_out = whole.take(stay), whole.take(held)
    notes += note_unmeasurable(held_out.labels)
    common = np.intersect1d(train.labels, held_out.labels)
    return Dataset(name, STANDARD if len(common) else ZERO_SHOT, train, held_out, classes, notes=tuple(notes))


def split_classes(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
    """Return the numbers of the training and of the test images, and what the test part is in words."""
    sizes = np.unique(labels, return_counts=True)[1]
    if len(sizes) >= MANY and np.median(sizes) < SMALL:
        return *part_classes(labels, SHARE, seed=SEED), "a fifth of the classes, since most have few images"
    if sizes.max(initial=0) >= PARTED:
        return *part_images(labels, SHARE, seed=SEED, least=2), "a fifth of each class"
    if len(sizes) >= FEW:  # two of them, at the least, in the test
        some = part_classes(labels, max(SHARE, 2 / len(sizes)), seed=SEED)
        return *some, "a part of the classes, since none has four images"
    return *part_images(labels, SHARE, seed=SEED, least=1), "one image of each class"


def note_unmeasurable(labels: np.ndarray) -> list[str]:
    """Return a note if no class has two test images: then there is nothing to be found for any query."""
    if np.unique(labels, return_counts=True)[1].max(initial=0) > 1:
        return []
    return [UNMEASURABLE]


def lone_classes(labels: np.ndarray) -> list[str]:
    """Return a note on the classes with one image, if there are any."""
    lone = int((np.unique(labels, return_counts=True)[1] == 1).sum())
    return [f"{count(lone, 'class has', 'classes have')} one image only."] if lone else []
