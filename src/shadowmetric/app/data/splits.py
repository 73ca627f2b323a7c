"""Ways to part images in two: by class, or within each class; what belongs to one group is never parted.

Both return the numbers of the images that stay and of those held out, ascending. The same labels, groups, share and
seed give the same parts on every machine.
"""

from collections.abc import Sequence

import numpy as np


def part_classes(labels: np.ndarray, share: float, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Hold out whole classes: the share of them, drawn by the seed, at least one and not all."""
    check_share(share)
    known = np.unique(labels)
    if len(known) < 2:
        raise ValueError(f"there is {len(known)} class; parting classes takes two or more.")
    count = min(max(1, round(share * len(known))), len(known) - 1)
    held = np.isin(labels, np.random.default_rng(seed).permutation(known)[:count])
    return np.flatnonzero(~held), np.flatnonzero(held)


def part_images(
    labels: np.ndarray,
    share: float,
    *,
    seed: int = 0,
    groups: np.ndarray | Sequence[int] | None = None,
    least: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Hold out the share of each class, drawn by the seed: at least `least` of its images, or none.

    As many stay, at least: an image alone has no positive, which takes two. A group counts for the class that most of
    its images have, and goes as a whole; one that would lead beyond the share is passed over.
    """
    check_share(share)
    units = np.arange(len(labels)) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    sizes = np.bincount(units)
    classes, places = np.unique(labels, return_inverse=True)
    class_of_unit = _majority(units, places, len(sizes), len(classes))
    held_units = np.zeros(len(sizes), dtype=bool)
    random = np.random.default_rng(seed)
    for place in range(len(classes)):
        members = random.permutation(np.flatnonzero(class_of_unit == place))
        total = int(sizes[members].sum())
        mask = _up_to(sizes[members], min(max(least, round(share * total)), total - least))
        if sizes[members][mask].sum() >= least:
            held_units[members[mask]] = True
    held = held_units[units]
    return np.flatnonzero(~held), np.flatnonzero(held)


def _up_to(sizes: np.ndarray, most: int) -> np.ndarray:
    """Return which of some groups, taken in order, fit into a number of images."""
    mask, reached = np.zeros(len(sizes), dtype=bool), 0
    for place, size in enumerate(sizes.tolist()):
        if reached + size <= most:
            mask[place], reached = True, reached + size
    return mask


def check_share(share: float) -> None:
    """Refuse what is no share."""
    if not 0 < share < 1:
        raise ValueError(f"the share held out is {share!r}; it must lie between 0 and 1, such as 0.1.")


def _majority(units: np.ndarray, places: np.ndarray, unit_count: int, class_count: int) -> np.ndarray:
    """Return the class that most images of each unit have; the first of equals."""
    pairs, counts = np.unique(units.astype(np.int64) * class_count + places, return_counts=True)
    order = np.lexsort((pairs, -counts))
    unit, first = np.unique(pairs[order] // class_count, return_index=True)
    majority = np.empty(unit_count, dtype=np.int64)
    majority[unit] = pairs[order][first] % class_count
    return majority
