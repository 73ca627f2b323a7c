"""Somebody's own images in a folder per class: `folder:PATH`.

    PATH/CLASS/**/image               without a split: a fifth is held out as the test part (assembly.py)
    PATH/{train,test}/CLASS/**/image  with one

A class is a folder's name; its images lie at any depth below it, and are known by their endings. Hidden files are
passed over. So are links to folders and links that lead out of PATH, folders without images, and images outside any
class folder: whatever somebody may have meant as data is named (`findings`). Everything is sorted by name, so the same
folder gives the same labels and parts on every machine.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from shadowmetric.app.data.dataset import Dataset, Split
from shadowmetric.app.data.images import FileImages
from shadowmetric.app.data.own.assembly import assemble, number_classes
from shadowmetric.errors import DataMistake
from shadowmetric.runtime.counting import count

IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".jp2", ".avif")
PARTS = ("train", "test")


NAMED = 5  # things of one kind, in a sentence


@dataclass
class ClassFolders:
    """The images of each class, and what was passed over, as paths below the folder."""

    images: dict[str, list[str]]  # class -> paths
    others: int = 0  # files that are no images by their endings
    links: list[str] = field(default_factory=list)  # not followed
    empty: list[str] = field(default_factory=list)  # folders of a class without any image
    stray: list[str] = field(default_factory=list)  # images outside any class folder
    beside: list[str] = field(default_factory=list)  # folders beside train and test

    def notes(self) -> list[str]:
        """Return sentences on what was passed over."""
        others = count(
            self.others, "file that is no image by its ending was", "files that are no images by their endings were"
        )
        return [*([f"{others} passed over."] if self.others else []), *self.findings()]

    def findings(self) -> list[str]:
        """Return sentences on what somebody may have meant as data."""
        return [
            f"{count(len(names), *words)}: {some_of(sorted(names))}."
            for names, words in (
                (self.links, ("link was not followed", "links were not followed")),
                (self.empty, ("class folder has no images", "class folders have no images")),
                (
                    self.beside,
                    ("folder beside train and test was not read", "folders beside train and test were not read"),
                ),
                (
                    self.stray,
                    ("image outside any class folder was not read", "images outside any class folder were not read"),
                ),
            )
            if names
        ]


def some_of(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def read_folder(path: Path) -> Dataset:
    """Return the dataset of a folder."""
    if not path.is_dir():
        state = "is a file" if path.exists() else "does not exist"
        raise DataMistake(f"{path} {state}; give a folder that has a folder per class.")
    parted = all((path / part).is_dir() for part in PARTS)
    listings = [(part, list_classes(path / part, part)) for part in PARTS] if parted else [("", list_classes(path))]
    records = [
        (f"{part}/{file}" if part else file, name, part)
        for part, listing in listings
        for name, files in listing.images.items()
        for file in files
    ]
    if not records:
        raise DataMistake(f"{path} {_what_there_is(path)}; put the images of each class into a folder of its own.")
    paths, names, parts = zip(*records, strict=True)
    labels, classes = number_classes(names)
    whole = Split(FileImages(path, list(paths)), labels)
    passed = join_listings([*(listing for _, listing in listings), *([beside_parts(path)] if parted else [])])
    test = np.array(parts) == "test" if parted else None
    dataset = assemble(f"folder:{path}", whole, classes, test, passed.notes())
    return replace(dataset, findings=tuple(passed.findings()))


def list_classes(path: Path, called: str = "") -> ClassFolders:
    """Return the images in each folder of a folder, sorted; called: what stands before names of what is passed over."""
    listing = ClassFolders({})
    inside = path.resolve()
    for name in sorted(os.listdir(path)) if path.is_dir() else ():
        entry, known = path / name, f"{called}/{name}" if called else name
        if name.startswith("."):
            continue
        if entry.is_dir() and entry.is_symlink():
            listing.links.append(known)
        elif entry.is_dir():
            if files := images_below(entry, path, inside, listing, called):
                listing.images[name] = files
            else:
                listing.empty.append(known)
        elif entry.suffix.lower() in IMAGES:
            listing.stray.append(known)
    return listing


def beside_parts(path: Path) -> ClassFolders:
    """Return what lies beside the folders of both parts, where nothing is read."""
    entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith(".") and entry.name not in PARTS)
    stray = [entry.name for entry in entries if entry.is_file() and entry.suffix.lower() in IMAGES]
    return ClassFolders({}, stray=stray, beside=[entry.name for entry in entries if entry.is_dir()])


def join_listings(listings: Sequence[ClassFolders]) -> ClassFolders:
    """Return what was passed over in some folders together."""
    lists = {
        name: [one for listing in listings for one in getattr(listing, name)]
        for name in ("links", "empty", "stray", "beside")
    }
    return ClassFolders({}, sum(listing.others for listing in listings), **lists)


def images_below(folder: Path, path: Path, inside: Path, listing: ClassFolders, called: str = "") -> list[str]:
    """Return the images below a folder, sorted, as paths below `path`; note what is passed over.

    A folder that cannot be read is refused: else its images would be taken for missing.
    """
    files = []
    for here, folders, names in os.walk(folder, onerror=_unreadable):
        linked = [Path(here, name) for name in folders if Path(here, name).is_symlink()]
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            file = Path(here, name)
            if name.startswith("."):
                continue
            if file.suffix.lower() not in IMAGES:
                listing.others += 1
            elif file.is_symlink() and not Path(os.path.realpath(file)).is_relative_to(inside):  # loops, too
                linked.append(file)
            elif file.is_file():  # no pipes and devices
                files.append(file.relative_to(path).as_posix())
        listing.links += sorted((Path(called) / link.relative_to(path)).as_posix() for link in linked)
    return sorted(files)


def _unreadable(wrong: OSError) -> None:
    where = f"{wrong.filename} cannot be read ({wrong.strerror})"
    raise DataMistake(f"{where}; change its rights, or move it out of the folder.")


def _what_there_is(path: Path) -> str:
    """Return what was found in a folder that has no images in folders."""
    entries = [entry for entry in path.iterdir() if not entry.name.startswith(".")]
    if not entries:
        return "is empty"
    links = sum(entry.is_symlink() for entry in entries)
    folders = sum(entry.is_dir() for entry in entries)
    images = sum(entry.suffix.lower() in IMAGES for entry in entries if entry.is_file())
    there = [f"{count(folders, 'folder')} without images"] if folders else []
    there += [f"{count(images, 'image')} outside of folders"] if images else []
    passed = f" ({count(links, 'is a link, which is', 'are links, which are')} passed over)" if links else ""
    return f"has {' and '.join(there) or 'neither folders nor images'}{passed}"
