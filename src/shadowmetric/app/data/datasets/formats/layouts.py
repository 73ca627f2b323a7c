"""Where a copy of a dataset lies, and which of the layouts that people have it is in.

A dataset's folder is looked for below the data root by its official name and by the others that its `Reader` lists;
capitals, `-`, `_` and spaces are of no matter. It may be there once more inside itself, as archives are unpacked into a
folder of their name, and the data root may be the folder itself. Layouts are tried in order, the official one first;
the first of which a sign, a file or a folder, is there is read, and a note says so unless it is the official one.

Memory: the names in the data root.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shadowmetric.app.data.dataset import Dataset, Reader, check_counts
from shadowmetric.app.data.datasets.formats.lists import on_disk
from shadowmetric.app.data.images import FileImages


@dataclass(frozen=True)
class Layout:
    """One way in which a dataset lies on disk."""

    title: str  # what it is, in a few words
    signs: tuple[str, ...]  # files or folders below the dataset's folder, each of which shows it
    parse: Callable[[Reader, Path], Dataset]  # of a reader that has the folder found, and the data root


def read_copy(reader: Reader, root: Path, layouts: Sequence[Layout], allow_partial: bool) -> Dataset:
    """Return a copy in the layout that it is in, its files looked for and counted."""
    located, layout = locate(reader, root, layouts)
    dataset = layout.parse(located, root)
    if isinstance(dataset.train.images, FileImages):
        dataset = on_disk(located, dataset, allow_partial)
    if layout is not layouts[0] or located.folder != reader.folder:
        note = f"Read from {located.folder}: {layout.title}."
        dataset = replace(dataset, notes=(note, *dataset.notes))
    return check_counts(reader, dataset, allow_partial)


def locate(reader: Reader, root: Path, layouts: Sequence[Layout]) -> tuple[Reader, Layout]:
    """Return the reader with the folder that a copy lies in, and its layout."""
    folders = list(folders_of(reader, root))
    for layout in layouts:
        for folder in folders:
            if any((root / folder / sign).exists() for sign in layout.signs):
                return replace(reader, folder=folder), layout
    return replace(reader, folder=next(iter(folders), reader.folder)), layouts[0]


def folders_of(reader: Reader, root: Path) -> Iterator[str]:
    """Yield the folders below a data root in which a dataset may lie, the official one first."""
    head, _, tail = reader.folder.partition("/")
    names = {spell(name) for name in (head, *reader.other_folders)}
    for first in sorted(folders_in(root), key=lambda name: (name != head, name)):
        if spell(first) in names:
            for place in (first, *(f"{first}/{name}" for name in folders_in(root / first) if spell(name) in names)):
                yield from [f"{place}/{tail}"] if tail and (root / place / tail).is_dir() else []
                yield place
    if spell(root.resolve().name) in names or any((root / file).is_file() for file in reader.files):
        yield "."


def folders_in(folder: Path) -> list[str]:
    """Return the names of the folders in a folder, sorted; none if there is no such folder."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def spell(name: str) -> str:
    """Return a name as it is compared."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def first_there(folder: Path, names: Sequence[str]) -> str:
    """Return the first of some names that is in a folder; the first of all if none is."""
    return next((name for name in names if (folder / name).exists()), names[0])
