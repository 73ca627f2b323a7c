"""A dataset: images with labels, in a training and a test part, and what a reader of one must state.

    zero_shot    training and test have different classes: a test image is searched among the other test images
    standard     the same classes on both sides: retrieval as above, and a vote of the training images on the class

A dataset may bring a gallery of its own, in which the test images, then the queries, are searched (In-Shop).
`groups` are images that must never be parted between training and validation: those of one lesion, of one patient.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from shadowmetric.app.data.images import ImageSource
from shadowmetric.errors import DataMistake
from shadowmetric.runtime.counting import count

ZERO_SHOT, STANDARD = "zero_shot", "standard"


@dataclass(frozen=True, eq=False)
class Split:
    """Images, the label of each, and perhaps the group of each."""

    images: ImageSource
    labels: np.ndarray  # (images,) int64: places in the dataset's class names
    groups: np.ndarray | None = None  # (images,) int64

    def __post_init__(self):
        if self.labels.dtype != np.int64 or self.labels.shape != (len(self.images),):
            raise ValueError(
                f"labels are {self.labels.dtype} of shape {self.labels.shape} for {len(self.images)} images; "
                "give one int64 for each."
            )

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, numbers: np.ndarray) -> "Split":
        """Return some of the images, in the order given."""
        groups = None if self.groups is None else self.groups[numbers]
        return Split(self.images.take(numbers), self.labels[numbers], groups)


@dataclass(frozen=True, eq=False)
class Dataset:
    """The parts of a dataset."""

    name: str
    kind: str  # ZERO_SHOT or STANDARD
    train: Split
    test: Split
    classes: tuple[str, ...]  # names, by label
    gallery: Split | None = None
    mirrors: bool = True  # an image seen in a mirror is as good; digits are not
    notes: tuple[str, ...] = ()  # sentences for people: what is missing, what rule was applied
    findings: tuple[str, ...] = ()  # those of the notes on what is there and was not read

    def parts(self) -> dict[str, Split]:
        """Return the parts by name."""
        parts = {"train": self.train, "test": self.test}
        return parts if self.gallery is None else parts | {"gallery": self.gallery}


@dataclass(frozen=True)
class Reader:
    """What is known of a named dataset, and the function that reads its official layout.

    read(root, allow_partial) returns the Dataset below a data root, or raises DataMistake. `images` and `classes`
    are the official counts of each part; a copy that has others is refused, unless a partial one is allowed, which
    then says in a note what it lacks.
    """

    name: str
    title: str
    folder: str  # below the data root
    kind: str
    images: dict[str, int]
    classes: dict[str, int]
    source: str  # where the archive comes from: an address or a sentence
    terms: str  # of use, in a few words
    read: Callable[[Path, bool], Dataset]
    download: Callable[[Path], None] | None = None  # where the bytes are checked
    archives: tuple[str, ...] = field(default=())  # names of the official archives
    other_folders: tuple[str, ...] = ()  # what else people call the folder; capitals, - and _ are of no matter
    files: tuple[str, ...] = ()  # that hold a whole copy and lie in the data root itself

    def missing(self, root: Path, what: str) -> DataMistake:
        """Return the sentence for something that is not below the data root."""
        remedy = (
            f"`shadowmetric data add {self.name}` downloads it"
            if self.download
            else f"get {' and '.join(self.archives) or 'the archive'} from {self.source} and run "
            f"`shadowmetric data add {self.name} ARCHIVE`"
        )
        return DataMistake(f"{self.name}: {what} is not there (below {root}); {remedy}.")


def check_counts(reader: Reader, dataset: Dataset, allow_partial: bool) -> Dataset:
    """Return the dataset if it has its official counts; if a partial one is allowed, with a note of what it has."""
    notes = []
    for part, split in dataset.parts().items():
        counts = {"images": len(split), "classes": len(np.unique(split.labels))}
        wanted = {"images": reader.images[part], "classes": reader.classes[part]}
        if counts != wanted:
            notes.append(
                f"{part} has {count(counts['images'], 'image')} of {count(counts['classes'], 'class')}, "
                f"officially {wanted['images']:,} of {wanted['classes']:,}"
            )
    if not notes:
        return dataset
    sentence = f"{reader.name}: {'; '.join(notes)}"
    if not allow_partial:
        raise DataMistake(f"{sentence}. Get the whole of it from {reader.source}, or allow this with --allow-partial.")
    return replace(dataset, notes=(*dataset.notes, f"A partial copy: {sentence}."))
