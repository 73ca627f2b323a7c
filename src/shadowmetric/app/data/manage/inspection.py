"""Look at a dataset: counts beside the official ones, what overlaps, what cannot be read, what is there twice.

Every image is decoded as a whole, unless it has to be quick, and known again by its pixels (`fingerprints.py`).
"""

from dataclasses import dataclass

import numpy as np

from shadowmetric.app.data.dataset import ZERO_SHOT, Dataset, Reader
from shadowmetric.app.data.manage.fingerprints import Prints, conflicts, find_duplicates, find_leaks, hash_images
from shadowmetric.progress import Report, silent

NAMED = 10  # how many examples are named


@dataclass(frozen=True)
class PartFound:
    """What one part has."""

    images: int
    classes: int
    official_images: int | None  # None if nobody has stated it
    official_classes: int | None
    smallest: tuple[str, int]  # class and its images
    largest: tuple[str, int]
    copies: int  # images that are in this part already
    copies_named: tuple[tuple[str, str], ...]  # pairs of names

    @property
    def is_official(self) -> bool:
        """Return whether the counts are those that were stated, if any were."""
        return self.official_images in (None, self.images) and self.official_classes in (None, self.classes)


@dataclass(frozen=True)
class Inspection:
    """What was found."""

    name: str
    kind: str
    parts: dict[str, PartFound]
    common_classes: int  # of training and test
    new_classes: int  # of the test part that training does not have
    common_groups: int | None  # None if there are no groups
    decoded: bool
    unreadable: int
    unreadable_named: tuple[str, ...]  # sentences
    shared: int  # test or gallery images that are training images too
    shared_named: tuple[tuple[str, str], ...]  # pairs of names
    conflicts: int  # images that are there with two classes or more
    notes: tuple[str, ...]

    def faults(self, allow_partial: bool = False) -> list[str]:
        """Return what is wrong, a sentence each."""
        faults = []
        if not allow_partial and not all(part.is_official for part in self.parts.values()):
            faults.append("The counts are not the official ones.")
        if self.kind == ZERO_SHOT and self.common_classes:
            faults.append(f"{self.common_classes:,} classes are in training and test, which must have none in common.")
        if self.common_groups:
            faults.append(f"{self.common_groups:,} groups are on both sides of the split; each belongs to one.")
        if self.unreadable:
            faults.append(f"{self.unreadable:,} images cannot be read.")
        if self.shared and any(part.official_images is None for part in self.parts.values()):
            faults.append(f"{self.shared:,} test images are training images too; remove them from one side.")
        return faults


def inspect(
    dataset: Dataset, reader: Reader | None = None, *, quick: bool = False, report: Report = silent
) -> Inspection:
    """Look at a dataset; quickly is without decoding its images."""
    parts = dataset.parts()
    prints, broken = ({}, []) if quick else take_prints(dataset, report)
    shared = list(find_leaks(parts, prints))
    train, test = dataset.train, dataset.test
    return Inspection(
        name=dataset.name,
        kind=dataset.kind,
        parts={part: _part(dataset, reader, part, prints.get(part, [])) for part in parts},
        common_classes=len(np.intersect1d(train.labels, test.labels)),
        new_classes=len(np.setdiff1d(test.labels, train.labels)),
        common_groups=_common_groups(dataset),
        decoded=not quick,
        unreadable=len(broken),
        unreadable_named=tuple(broken[:NAMED]),
        shared=len(shared),
        shared_named=tuple(shared[:NAMED]),
        conflicts=conflicts(parts, prints),
        notes=dataset.notes,
    )


def take_prints(dataset: Dataset, report: Report) -> tuple[Prints, list[str]]:
    """Return the hashes of all images, and a sentence for each that cannot be read."""
    prints: Prints = {}
    broken: list[str] = []
    done, total = 0, sum(len(split) for split in dataset.parts().values())
    for part, split in dataset.parts().items():
        prints[part] = []
        for digest, wrong in hash_images(split.images):
            prints[part].append(digest)
            broken += [wrong] if wrong else []
            done += 1
            report(f"decode {part}", done / total)
    return prints, broken


def _common_groups(dataset: Dataset) -> int | None:
    train, test = dataset.train.groups, dataset.test.groups
    return None if train is None or test is None else len(np.intersect1d(train, test))


def _part(dataset: Dataset, reader: Reader | None, part: str, prints: list[bytes | None]) -> PartFound:
    split = dataset.parts()[part]
    labels, counts = np.unique(split.labels, return_counts=True)
    small, large = (int(number) for number in (np.argmin(counts), np.argmax(counts)))
    copies = list(find_duplicates(split, prints))
    return PartFound(
        images=int(counts.sum()),
        classes=len(labels),
        official_images=None if reader is None else reader.images[part],
        official_classes=None if reader is None else reader.classes[part],
        smallest=(dataset.classes[labels[small]], int(counts[small])),
        largest=(dataset.classes[labels[large]], int(counts[large])),
        copies=len(copies),
        copies_named=tuple(copies[:NAMED]),
    )
