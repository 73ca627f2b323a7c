"""Which images are to be indexed: those of a folder, or of a table.

    FOLDER     images at any depth, known by their endings; an image's class is the first folder below FOLDER, below
               FOLDER/train or FOLDER/test if both are there, and none for images that lie in FOLDER itself
    FILE.csv   a header, in capitals or not, and a line an image: path (below the table's folder, or absolute), and if
               there is one, label (or class); a file that is not there is a mistake in the table

Hidden files are passed over; so are links to folders and links that lead out of the folder, which are counted in a
note. Paths are kept relative to one root, and no path leads out of it: what is served later is below that folder. That
of a table is its own folder, or the one that all images share if some lie elsewhere; an image whose line would make
it the top of the disk, or a folder of home folders, is refused, since a server shows paths below the root.

Memory: the paths.
"""

import csv
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from shadowmetric.app.data.own.folder import IMAGES, PARTS, ClassFolders, images_below
from shadowmetric.errors import Mistake
from shadowmetric.runtime.counting import count


class Listed(NamedTuple):
    """An image to be indexed."""

    path: str  # below the root, with forward slashes
    label: str | None


class Line(NamedTuple):
    """A line of a table."""

    number: int
    path: str  # as it stands there
    label: str | None


@dataclass(frozen=True)
class Listing:
    """The images, sorted by path, and sentences on what was passed over."""

    root: Path
    images: list[Listed]
    notes: list[str] = field(default_factory=list)


def list_images(source: Path) -> Listing:
    """Return the images of a folder or a table."""
    if source.is_dir():
        listing = list_folder(source)
    elif source.is_file():
        listing = list_table(source)
    else:
        raise Mistake(f"{source} is not there; give a folder of images, or a table such as images.csv.")
    if not listing.images:
        if (source / "settings.yaml").is_file():
            raise Mistake(f"{source} is a run and has no images; the run comes first: shadowmetric index RUN FOLDER.")
        passed = "".join(f" {note}" for note in listing.notes)
        raise Mistake(f"{source} has no images; known endings are {' '.join(IMAGES)}.{passed}")
    return listing


def list_folder(folder: Path) -> Listing:
    """Return the images below a folder."""
    root = folder.resolve()
    parted = all((root / part).is_dir() for part in PARTS)
    passed_over = ClassFolders({})
    files = images_below(root, root, root, passed_over)
    return Listing(root, sorted(list_image(tuple(file.split("/")), parted) for file in files), passed_over.notes())


def list_image(parts: tuple[str, ...], parted: bool) -> Listed:
    """Return an image with the class that its place says."""
    above = parts[1:] if parted and parts[0] in PARTS else parts
    return Listed("/".join(parts), above[0] if len(above) > 1 else None)


def list_table(table: Path) -> Listing:
    """Return the images that a table names."""
    lines, folder = read_table(table), table.resolve().parent
    files = [Path(os.path.normpath(folder / line.path)) for line in lines]
    missing = [file for file in files if not os.path.isfile(file)]  # is_file() fails if a name is too long
    if missing:
        raise Mistake(
            f"{table} names {count(len(missing), 'file that is', 'files that are')} not there, of {len(files):,}; the "
            f"first is {missing[0]}; give paths below the table's folder."
        )
    root = root_of(files, folder)
    check_root(table, root, list(zip(files, lines, strict=True)), folder)
    images: dict[str, Listed] = {}
    links, elsewhere = 0, []
    for file, line in zip(files, lines, strict=True):
        if not file.is_relative_to(root):
            elsewhere.append(f"line {line.number}, {file}")
        elif not file.resolve().is_relative_to(root.resolve()):
            links += 1
        else:
            path = file.relative_to(root).as_posix()
            if images.setdefault(path, Listed(path, line.label)).label != line.label:
                raise Mistake(
                    f"{table}: {file} stands there twice, as {images[path].label!r} and {line.label!r}; remove one."
                )
    led_out = count(links, f"link leads out of {root} and was", f"links lead out of {root} and were")
    notes = [f"{led_out} not followed."] if links else []
    if elsewhere:
        left_out = count(
            len(elsewhere),
            f"file outside of {root} is no image, or a link, and was",
            f"files outside of {root} are no images, or links, and were",
        )
        notes.append(f"{left_out} left out; the first is {elsewhere[0]}.")
    return Listing(root, sorted(images.values()), notes)


def root_of(files: list[Path], folder: Path) -> Path:
    """Return the folder that the images are below: the table's own, if any are, and those that others are in.

    Files elsewhere that are no images, and links that lead out, do not widen it. One header is read for each folder
    elsewhere, and more where the first is no image.
    """
    true = {file: file.resolve() for file in files}
    while True:
        elsewhere: dict[Path, list[Path]] = {}
        for file in files:
            if not file.is_relative_to(folder):
                elsewhere.setdefault(file.parent, []).append(file)
        below = len(files) - sum(map(len, elsewhere.values()))
        places = [parent for parent, some in elsewhere.items() if any(map(is_image, some))]
        root = Path(os.path.commonpath(places if places and not below else [*places, folder]))
        inside = root.resolve()
        stay = [file for file in files if file.is_relative_to(root) and true[file].is_relative_to(inside)]
        if len(stay) == len(files):
            return root
        files = stay


def check_root(table: Path, root: Path, named: list[tuple[Path, Line]], folder: Path) -> None:
    """Refuse the first image that makes the root wider than a server should show paths from."""
    inside = [(file, line) for file, line in named if file.is_relative_to(root)]
    first = folder if any(file.is_relative_to(folder) for file, _ in inside) or not inside else inside[0][0].parent
    for file, line in inside:
        if too_wide(shared := Path(os.path.commonpath([first, file.parent]))) and shared != folder:
            raise Mistake(
                f"{table}, line {line.number}: {file} shares only {shared} with the images before it, and an index "
                "would show all paths from there on; make a table for each folder, or bring the images into one."
            )


def is_image(file: Path) -> bool:
    """Return whether a file begins as an image does."""
    from PIL import Image

    from shadowmetric.runtime.images import FORMATS

    try:
        with Image.open(file, formats=FORMATS):
            return True
    except Exception:  # whatever a decoder makes of other bytes
        return False


def too_wide(root: Path) -> bool:
    """Return whether a folder is above what one person keeps: the top of the disk, or what home folders are in."""
    return root == root.parent or root in Path(os.path.expanduser("~")).parents


def read_table(table: Path) -> list[Line]:
    """Return the lines of a table."""
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            header = [name.strip() for name in reader.fieldnames or ()]
            columns = [name.lower() for name in header]
            for name in ("path", "label", "class"):
                if columns.count(name) > 1 or (name == "path" and name not in columns):
                    state = "more than one" if name in columns else "no"
                    first = f"its first line ({', '.join(header)[:200] or 'empty'})"
                    raise Mistake(f"{table} has {state} column '{name}' in {first}; give a header such as path,label.")
            reader.fieldnames = columns
            lines = [(reader.line_num, line) for line in reader]
    except OSError as error:
        raise Mistake(f"{table} cannot be opened: {error.strerror}; give a folder or a CSV file.") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise Mistake(f"{table} is no CSV file in UTF-8 ({error}); give a folder or a table of paths.") from None
    rows = []
    label_column = "label" if "label" in columns else "class"
    for number, line in lines:
        path, label = (line.get("path") or "").strip(), (line.get(label_column) or "").strip()
        if not path or "\0" in path:
            raise Mistake(f"{table}, line {number}: the path is {path!r}; fill it in or remove the line.")
        rows.append(Line(number, path, label or None))
    return rows
