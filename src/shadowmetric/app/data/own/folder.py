"""Somebody's own images in a folder per class: `folder:PATH`.

    PATH/CLASS/**/image               without a split: a fifth is held out as the test part (assembly.py)
    PATH/{train,test}/CLASS/**/image  with one

A class is a folder's name; its images lie at any depth below it, and are known by their endings. Hidden files are
passed over; so are links to folders and links that lead out of PATH, which are counted in a note. Everything is
sorted by name, so the same folder gives the same labels and parts on every machine.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shadowmetric.app.data.dataset import Dataset, Split
from shadowmetric.app.data.images import FileImages
from shadowmetric.app.data.own.assembly import assemble, number_classes
from shadowmetric.errors import DataMistake

IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".jp2", ".avif")
PARTS = ("train", "test")


@dataclass
class ClassFolders:
    """The images of each class, and how many things were passed over."""

    images: dict[str, list[str]]  # class -> paths below the folder
    others: int = 0  # files that are no images by their endings
    links: int = 0  # not followed

    def notes(self) -> list[str]:
        """Return sentences on what was passed over."""
        notes = [f"{self.others:,} files that are no images by their endings were passed over."] if self.others else []
        return notes + ([f"{self.links:,} links were not followed."] if self.links else [])


def read_folder(path: Path) -> Dataset:
    """Return the dataset of a folder."""
    if not path.is_dir():
        state = "is a file" if path.exists() else "does not exist"
        raise DataMistake(f"{path} {state}; give a folder that has a folder per class.")
    parted = all((path / part).is_dir() for part in PARTS)
    listings = [(part, list_classes(path / part)) for part in PARTS] if parted else [("", list_classes(path))]
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
    notes = [note for _, listing in listings for note in listing.notes()]
    return assemble(f"folder:{path}", whole, classes, np.array(parts) == "test" if parted else None, notes)


def list_classes(path: Path) -> ClassFolders:
    """Return the images in each folder of a folder, sorted; a folder without any is no class."""
    listing = ClassFolders({})
    inside = path.resolve()
    for name in sorted(os.listdir(path)) if path.is_dir() else ():
        folder = path / name
        if name.startswith(".") or not folder.is_dir():
            continue
        if folder.is_symlink():
            listing.links += 1
        elif files := images_below(folder, path, inside, listing):
            listing.images[name] = files
    return listing


def images_below(folder: Path, path: Path, inside: Path, listing: ClassFolders) -> list[str]:
    """Return the images below a folder, sorted, as paths below `path`; count what is passed over.

    A folder that cannot be read is refused: else its images would be taken for missing.
    """
    files = []
    for here, folders, names in os.walk(folder, onerror=_unreadable):
        listing.links += sum(Path(here, name).is_symlink() for name in folders)
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            file = Path(here, name)
            if name.startswith("."):
                continue
            if file.suffix.lower() not in IMAGES:
                listing.others += 1
            elif file.is_symlink() and not Path(os.path.realpath(file)).is_relative_to(inside):  # loops, too
                listing.links += 1
            elif file.is_file():  # no pipes and devices
                files.append(file.relative_to(path).as_posix())
    return sorted(files)


def _unreadable(wrong: OSError) -> None:
    where = f"{wrong.filename} cannot be read ({wrong.strerror})"
    raise DataMistake(f"{where}; change its rights, or move it out of the folder.")


def _what_there_is(path: Path) -> str:
    """Return what was found in a folder that has no images in folders."""
    entries = [entry for entry in path.iterdir() if not entry.name.startswith(".")]
    folders = sum(entry.is_dir() for entry in entries)
    images = sum(entry.suffix.lower() in IMAGES for entry in entries if entry.is_file())
    if not entries:
        return "is empty"
    links = sum(entry.is_symlink() for entry in entries)
    passed = f" ({links:,} are links, which are passed over)" if links else ""
    return f"has {folders:,} folders without images and {images:,} images outside of folders{passed}"
