"""Look at a dataset: counts beside the official ones, what overlaps, what cannot be read, what is there twice.

    faults      what is wrong with the copy: other counts, images that cannot be read, parts that must not overlap
    findings    what may be wrong with the data, in a whole copy too, as of CIFAR-100: test images that are training
                images, images with two classes, and what lies in a folder of images and was not read

Every image is decoded as a whole, unless it has to be quick, and known again by its pixels (`fingerprints.py`).
"""

from dataclasses import dataclass

import numpy as np

from shadowmetric.app.data.dataset import ZERO_SHOT, Dataset, Reader
from shadowmetric.app.data.manage.fingerprints import (
    Place,
    Prints,
    find_conflicts,
    find_duplicates,
    find_leaks,
    hash_images,
)
from shadowmetric.app.data.own.assembly import UNMEASURABLE
from shadowmetric.progress import Report, silent
from shadowmetric.runtime.counting import count

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
    conflicts_named: tuple[tuple[str, str], ...]  # pairs of names with classes
    passed_over: tuple[str, ...]  # sentences on what is there and was not read, or can never be found
    notes: tuple[str, ...]  # others

    def faults(self, allow_partial: bool = False) -> list[str]:
        """Return what is wrong, a sentence each."""
        faults = []
        if not allow_partial and not all(part.is_official for part in self.parts.values()):
            faults.append("The counts are not the official ones.")
        if self.kind == ZERO_SHOT and self.common_classes:
            classes = count(self.common_classes, "class is", "classes are")
            faults.append(f"{classes} in training and test, which must have none in common.")
        if self.common_groups:
            groups = count(self.common_groups, "group is", "groups are")
            faults.append(f"{groups} on both sides of the split; each belongs to one.")
        if self.unreadable:
            faults.append(f"{count(self.unreadable, 'image')} cannot be read.")
        return faults

    def findings(self) -> list[str]:
        """Return what may be wrong with the data, a sentence each."""
        findings = list(self.passed_over)
        if self.shared:
            images = count(self.shared, "test image is", "test images are")
            findings.append(f"{images} among the training images too, which flatters scores; keep each on one side.")
        if self.conflicts:
            findings.append(
                f"{count(self.conflicts, 'image has', 'images have')} two classes or more; keep one of each."
            )
        return findings


def inspect(
    dataset: Dataset, reader: Reader | None = None, *, quick: bool = False, report: Report = silent
) -> Inspection:
    """Look at a dataset; quickly is without decoding its images."""
    parts = dataset.parts()
    prints, broken = ({}, []) if quick else take_prints(dataset, report)
    shared = list(find_leaks(parts, prints))
    conflicts = list(find_conflicts(parts, prints))
    train, test = dataset.train, dataset.test
    findings = [*dataset.findings, *(note for note in dataset.notes if note == UNMEASURABLE)]
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
        conflicts=len({first for _, first in conflicts}),
        conflicts_named=tuple((_name(dataset, one), _name(dataset, first)) for one, first in conflicts[:NAMED]),
        passed_over=tuple(findings),
        notes=tuple(note for note in dataset.notes if note not in findings),
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


def _name(dataset: Dataset, place: Place) -> str:
    """Return the name of an image with its class."""
    split = dataset.parts()[place[0]]
    return f"{split.images.name(place[1])} ({dataset.classes[split.labels[place[1]]]})"


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
