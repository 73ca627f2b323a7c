"""Which pictures are to be indexed: those of a folder, or of a table.

    FOLDER     pictures at any depth, known by their endings; a picture's class is the first folder below FOLDER, below
               FOLDER/train or FOLDER/test if both are there, and none for pictures that lie in FOLDER itself
    FILE.csv   a header and a line a picture: path (below the table's folder, or absolute), and if there is one, label
               (or class); a file that is not there is a mistake in the table

Hidden files are passed over; so are links to folders and links that lead out of the folder, which are counted in a
note. Paths are kept relative to one root, and no path leads out of it: what is served later is below that folder.

Memory: the paths.
"""

import csv
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from shadowmetric.data.folder import PARTS, PICTURES, ClassFolders, pictures_below
from shadowmetric.mistakes import Mistake


class Listed(NamedTuple):
    """A picture to be indexed."""

    path: str  # below the root, with forward slashes
    label: str | None


@dataclass(frozen=True)
class Listing:
    """The pictures, sorted by path, and sentences on what was passed over."""

    root: Path
    pictures: list[Listed]
    notes: list[str] = field(default_factory=list)


def list_pictures(source: Path) -> Listing:
    """Return the pictures of a folder or a table."""
    if source.is_dir():
        found = list_folder(source)
    elif source.is_file():
        found = list_table(source)
    else:
        raise Mistake(f"{source} is not there; give a folder of pictures, or a table such as pictures.csv.")
    if not found.pictures:
        raise Mistake(f"{source} has no pictures; known endings are {' '.join(PICTURES)}.")
    return found


def list_folder(folder: Path) -> Listing:
    """Return the pictures below a folder."""
    root = folder.resolve()
    parted = all((root / part).is_dir() for part in PARTS)
    passed_over = ClassFolders({})
    files = pictures_below(root, root, root, passed_over)
    return Listing(root, sorted(listed(tuple(file.split("/")), parted) for file in files), passed_over.notes())


def listed(parts: tuple[str, ...], parted: bool) -> Listed:
    """Return a picture with the class that its place says."""
    above = parts[1:] if parted and parts[0] in PARTS else parts
    return Listed("/".join(parts), above[0] if len(above) > 1 else None)


def list_table(table: Path) -> Listing:
    """Return the pictures that a table names."""
    lines = read_table(table)
    folder = table.resolve().parent
    files = [Path(os.path.normpath(folder / path)) for path, _ in lines]
    outside = [file for file in files if not file.is_relative_to(folder)]
    root = Path(os.path.commonpath([folder, *(file.parent for file in outside)]))
    found: dict[str, Listed] = {}
    missing = [file for file in files if not os.path.isfile(file)]  # is_file() fails if a name is too long
    if missing:
        raise Mistake(
            f"{table}: {len(missing):,} of {len(files):,} files are not there, the first is {missing[0]}; "
            "give paths below the table's folder."
        )
    links = 0
    for file, (_, label) in zip(files, lines, strict=True):
        path = file.relative_to(root).as_posix()
        if not file.resolve().is_relative_to(root.resolve()):
            links += 1
        elif found.setdefault(path, Listed(path, label)).label != label:
            raise Mistake(f"{table}: {file} stands there twice, as {found[path].label!r} and {label!r}; remove one.")
    notes = [f"{links:,} links lead out of {root} and were not followed."] if links else []
    return Listing(root, sorted(found.values()), notes)


def read_table(table: Path) -> list[tuple[str, str | None]]:
    """Return path and label of each line."""
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            columns = [name.strip() for name in reader.fieldnames or ()]
            if columns.count("path") != 1:
                raise Mistake(
                    f"{table} has no column 'path' in its first line ({', '.join(columns)[:200] or 'empty'}); "
                    "give a header such as path,label."
                )
            reader.fieldnames = columns
            lines = [(reader.line_num, line) for line in reader]
    except OSError as wrong:
        raise Mistake(f"{table} cannot be opened: {wrong.strerror}; give a folder or a CSV file.") from None
    except (csv.Error, UnicodeDecodeError) as wrong:
        raise Mistake(f"{table} is no CSV file in UTF-8 ({wrong}); give a folder or a table of paths.") from None
    found = []
    label_column = "label" if "label" in columns else "class"
    for number, line in lines:
        path, label = (line.get("path") or "").strip(), (line.get(label_column) or "").strip()
        if not path or "\0" in path:
            raise Mistake(f"{table}, line {number}: the path is {path!r}; fill it in or remove the line.")
        found.append((path, label or None))
    return found
