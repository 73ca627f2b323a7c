"""Copies with a folder per class, and small images of one size from their files into memory.

Memory: the paths; `in_memory` all images.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from shadowmetric.app.data.dataset import Dataset, Reader, Split
from shadowmetric.app.data.datasets.formats.layouts import first_there, spell
from shadowmetric.app.data.images import ArrayImages, FileImages
from shadowmetric.app.data.own.folder import list_classes
from shadowmetric.errors import BrokenImage, DataMistake

TRAIN, TEST = ("train", "training"), ("test", "testing", "val", "valid")  # what people call the two parts


def class_rows(folder: Path, places: Sequence[str]) -> list[tuple[str, str]]:
    """Return (path, name of its class) of each image in class folders, in some folders below one, all in order."""
    return [
        (f"{place}/{path}" if place else path, name)
        for place in places
        for name, paths in list_classes(folder / place).images.items()
        for path in paths
    ]


def read_parts(reader: Reader, root: Path, shape: tuple[int, int], classes: Sequence[str] = ()) -> Dataset:
    """Return a dataset of small images, (channels, side), with a folder per class in each part, at any depth.

    Folders have the names of the classes, or their numbers. Without classes these are the names, sorted.
    """
    folder, (channels, side) = root / reader.folder, shape
    parts = {}
    for part, names in (("train", TRAIN), ("test", TEST)):
        place = first_there(folder, names)
        parts[part] = [(path, Path(path).parent.name) for path, _ in class_rows(folder, [place])]
        if not parts[part]:
            raise reader.missing(root, f"{reader.folder}/{place} with a folder per class")
    known = tuple(classes) or tuple(sorted({name for rows in parts.values() for _, name in rows}))
    label = {spell(name): number for number, name in enumerate(known)}
    label |= {str(number): number for number in range(len(known))} if classes else {}
    splits = {}
    for part, rows in parts.items():
        unknown = [path for path, name in rows if spell(name) not in label]
        if unknown:
            raise DataMistake(f"{folder / unknown[0]} is in no folder of a class; the classes are {', '.join(known)}.")
        labels = np.array([label[spell(name)] for _, name in rows], dtype=np.int64)
        files = Split(FileImages(folder, [path for path, _ in rows], channels), labels)
        splits[part] = in_memory(files, reader.name, part, side)
    return Dataset(reader.name, reader.kind, splits["train"], splits["test"], known)


def in_memory(split: Split, dataset: str, title: str, side: int) -> Split:
    """Return a part with its images, all of one size, read into memory."""
    assert isinstance(split.images, FileImages)
    channels = split.images.channels
    pixels = torch.empty(len(split), channels, side, side, dtype=torch.uint8)
    for number in range(len(split)):
        try:
            image = split.images.read(number)
        except BrokenImage as error:
            raise DataMistake(f"{dataset}: {str(error).rstrip('.')}; get it again.") from None
        if image.shape != pixels.shape[1:]:
            name, shape = split.images.name(number), " × ".join(map(str, image.shape))
            raise DataMistake(f"{dataset}: {name} is {shape}, not {channels} × {side} × {side}; get it again.")
        pixels[number] = image
    return Split(ArrayImages(pixels, f"{title} image"), split.labels)
