"""What is evaluated: the files that were named, as embeddings with numbered labels."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from shadowmetric.app.data.own.arrays import LabeledRows, is_npz, keys_of, number_labels, read_set
from shadowmetric.errors import Mistake


class Evaluated(NamedTuple):
    """A set of queries, perhaps a gallery, and where they are from."""

    file: Path
    query: LabeledRows  # labels are int64
    gallery_file: Path | None
    gallery: LabeledRows | None
    class_names: list[str] | None  # of the labels 0, 1, ... if the files have strings
    row_names: tuple[str, ...] = ()  # what people call the queries, if they have names
    gallery_names: tuple[str, ...] = ()
    note: str = ""  # what a reader must know beside the figures

    def name(self, label: int) -> str | int:
        """Return a label as the files have it."""
        return label if self.class_names is None else self.class_names[label]

    def row_name(self, row: int) -> str | int:
        """Return what people call a query."""
        return self.row_names[row] if self.row_names else row

    def neighbor_name(self, row: int) -> str | int:
        """Return what people call a row that was searched for."""
        return self.gallery_names[row] if self.gallery_names else row if self.gallery else self.row_name(row)

    def classes(self) -> int:
        """Return how many classes the queries have."""
        return len(np.unique(self.query.labels))


def what_to_evaluate(
    file: Path, labels: Path | None = None, gallery_file: Path | None = None, gallery_labels: Path | None = None
) -> Evaluated:
    """Return what the files hold, or refuse them."""
    try:
        if labels is None and not is_npz(file):
            raise ValueError(f"{file} holds no labels; name the file of its labels after it.")
        query = read_set(file, labels)
        gallery_source = gallery_of(file, gallery_file, gallery_labels)
        if gallery_source is None:
            (numbers,), names = number_labels(query.labels)
            return Evaluated(file, query._replace(labels=numbers), None, None, names)
        gallery_file, gallery = gallery_source
        if gallery.rows.shape[1] != query.rows.shape[1]:
            raise ValueError(
                f"{file} has rows of {query.rows.shape[1]} numbers and the gallery {gallery_file} of "
                f"{gallery.rows.shape[1]}; they must match."
            )
        (numbers, gallery_numbers), names = number_labels(query.labels, gallery.labels)
    except ValueError as error:
        raise Mistake(str(error)) from None
    gallery = gallery._replace(labels=gallery_numbers)
    return Evaluated(file, query._replace(labels=numbers), gallery_file, gallery, names)


def gallery_of(file: Path, gallery_file: Path | None, gallery_labels: Path | None) -> tuple[Path, LabeledRows] | None:
    """Return the gallery that was named, or that the queries' own file brings, or None."""
    if gallery_file is not None:
        if gallery_labels is None and not is_npz(gallery_file):
            raise ValueError(f"{gallery_file} holds no labels; name the file of its labels with --gallery-labels.")
        gallery = read_set(gallery_file, gallery_labels)
        if file.samefile(gallery_file):
            raise ValueError(
                f"--gallery {gallery_file} is the file of the queries, so that each would find itself; "
                "leave --gallery out to compare each with the others."
            )
        return gallery_file, gallery
    if "gallery" in keys_of(file):
        return file, read_set(file, gallery_labels, rows="gallery", labels="gallery_labels")
    if gallery_labels is not None:
        raise ValueError("--gallery-labels was given without --gallery; give both or neither.")
    return None
