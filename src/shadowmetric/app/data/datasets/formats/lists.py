"""The lists that come with a dataset, the parts that they make, and the files that they name.

A list is text, one entry to a line: UTF-8 with or without a mark at its start, lines ended the Unix or the Windows
way, empty lines passed over. Bytes that are not UTF-8 stay what they are, so that such a file name is still found.
What a list says is believed only as far as it can be read: anything else is a DataMistake that names file and line.

Files are looked for folder by folder, one listing of each folder that is named, not one question for each file.
A path that leads out of the dataset's folder counts as not there.

Memory: the paths, and the names of one folder at a time.
"""

import csv
import errno
import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from shadowmetric.app.data.dataset import Dataset, Reader, Split
from shadowmetric.app.data.images import FileImages
from shadowmetric.app.data.splits import part_images
from shadowmetric.errors import DataMistake

Raw = TypeVar("Raw")
Found = TypeVar("Found")
Class = TypeVar("Class", bound=Hashable)
NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
MOST_SHOWN = 80  # characters of a line in a sentence


def read_list(
    reader: Reader, root: Path, name: str, parse: Callable[[str], Found], expected: str, *, skip: int = 0
) -> list[Found]:
    """Return what `parse` makes of each line of a list in the dataset's folder, after the lines to skip."""

    def lines(path: Path) -> list[str]:
        return path.read_text(encoding="utf-8-sig", errors="surrogateescape").split("\n")

    text = load(reader, root, name, lines, "text")
    numbered = [(number, line) for number, line in enumerate(text, 1) if number > skip and line.strip()]
    return parse_each(root / reader.folder / name, numbered, parse, expected)


def load(reader: Reader, root: Path, name: str, open_file: Callable[[Path], Found], what: str) -> Found:
    """Return what a function makes of a file in the dataset's folder."""
    path = root / reader.folder / name
    if not path.is_file():
        raise reader.missing(root, f"{reader.folder}/{name}")
    try:
        return open_file(path)
    except Exception as error:  # whatever a library makes of damaged bytes
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise DataMistake(f"{path} cannot be read as {what} ({reason}); get it anew from {reader.source}.") from None


def parse_each(
    path: Path, entries: Iterable[tuple[int, Raw]], parse: Callable[[Raw], Found], expected: str, unit: str = "line"
) -> list[Found]:
    """Return what `parse` makes of each numbered entry; one that it cannot make sense of is a DataMistake."""
    records = []
    for number, entry in entries:
        try:
            records.append(parse(entry))
        except (ValueError, LookupError, TypeError, csv.Error):
            excerpt = repr(entry)
            excerpt = excerpt if len(excerpt) <= MOST_SHOWN else f"{excerpt[:MOST_SHOWN]}…"
            raise DataMistake(f"{path}, {unit} {number}, is {excerpt}; expected {expected}.") from None
    if not records:
        raise DataMistake(f"{path} has no {unit}; expected {expected}.")
    return records


def by_number(path: Path, rows: Sequence[tuple[int, Found]]) -> dict[int, Found]:
    """Return what a list says of each number; a number that comes twice would be one or the other by chance."""
    found: dict[int, Found] = {}
    for number, said in rows:
        if number in found:
            raise DataMistake(f"{path} has the number {number} twice; get the official archive again.")
        found[number] = said
    return found


def list_images(
    folder: Path,
    rows: Sequence[tuple[str, Class]],
    classes: Mapping[Class, str],
    groups: Sequence[int] | np.ndarray | None = None,
) -> Split:
    """Return the images of (path, class) rows; a label is the place of the class among all of them."""
    place = {known: number for number, known in enumerate(classes)}
    labels = np.array([place[known] for _, known in rows], dtype=np.int64)
    numbers = None if groups is None else np.asarray(groups, dtype=np.int64)
    return Split(FileImages(folder, [path for path, _ in rows]), labels, numbers)


def in_two(
    reader: Reader,
    folder: Path,
    train: Sequence[tuple[str, Class]],
    test: Sequence[tuple[str, Class]],
    classes: Mapping[Class, str],
) -> Dataset:
    """Return the dataset of which the lists name both parts."""
    parts = (list_images(folder, rows, classes) for rows in (train, test))
    return Dataset(reader.name, reader.kind, *parts, classes=tuple(classes.values()))


def in_fifths(reader: Reader, whole: Split, classes: Mapping[Class, str], notes: tuple[str, ...] = ()) -> Dataset:
    """Return the dataset that has no official parts: a fifth of each class, in whole groups, tests."""
    train, test = part_images(whole.labels, 0.2, seed=0, groups=whole.groups)
    names = tuple(classes.values())
    return Dataset(reader.name, reader.kind, whole.take(train), whole.take(test), classes=names, notes=notes)


def on_disk(reader: Reader, dataset: Dataset, allow_partial: bool) -> Dataset:
    """Return the dataset with the images whose files are there; some may lack only if a partial one is allowed."""
    parts, total, lost = dataset.parts(), 0, []
    for part, split in parts.items():
        assert isinstance(split.images, FileImages)
        paths = split.images.paths
        there = are_there(split.images.root, paths)
        total += len(paths)
        lost += [paths[number] for number in np.flatnonzero(~there).tolist()]
        parts[part] = split.take(np.flatnonzero(there))
    if lost and (not allow_partial or len(lost) == total):
        remedy = "" if len(lost) == total else ", or allow this with --allow-partial"
        raise DataMistake(
            f"{reader.name}: {len(lost):,} of the {total:,} images that its lists name are not in {reader.folder}, "
            f"the first is {lost[0]!r}. Get the whole of it from {reader.source}{remedy}."
        )
    return replace(dataset, **parts)


def are_there(folder: Path, paths: Sequence[str]) -> np.ndarray:
    """Return for each path below a folder whether there is such a file, (paths,) bool."""
    members: dict[str, list[int]] = {}
    for number, path in enumerate(paths):
        members.setdefault(path.rpartition("/")[0], []).append(number)
    there = np.zeros(len(paths), dtype=bool)
    for inside, numbers in members.items():
        if not inside.startswith("/") and ".." not in inside.split("/"):
            names = names_in(folder / inside)
            there[numbers] = [paths[number].rpartition("/")[2] in names for number in numbers]
    return there


def names_in(folder: Path) -> set[str]:
    """Return the names of the files in a folder; none if there is no such folder, or could not be."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries if entry.is_file()}
    except ValueError:  # a NUL in its name
        return set()
    except OSError as error:
        if error.errno in NO_FOLDER:
            return set()
        raise
