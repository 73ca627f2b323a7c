"""CIFAR's binary files: for each image one byte for each label, then 3,072 of red, green and blue rows.

Memory: the file, and the images once more.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from shadowmetric.app.data.dataset import Reader, Split
from shadowmetric.app.data.datasets.formats.cifar_pickles import CHANNELS, SIDE
from shadowmetric.app.data.images import ArrayImages
from shadowmetric.errors import DataMistake


def read_binary(
    reader: Reader, root: Path, names: Sequence[str], title: str, *, labels: int = 1, classes: int = 10
) -> Split:
    """Return the images of some files, one after another, by the last of their labels."""
    records = np.concatenate([_records(reader, root, name, labels + CHANNELS * SIDE**2) for name in names])
    known = records[:, labels - 1].astype(np.int64)
    if len(known) and known.max() >= classes:
        raise DataMistake(f"{reader.name}: {names[0]} has the label {known.max()} of {classes} classes; get it again.")
    pixels = torch.from_numpy(np.ascontiguousarray(records[:, labels:])).reshape(-1, CHANNELS, SIDE, SIDE)
    return Split(ArrayImages(pixels, title), known)


def _records(reader: Reader, root: Path, name: str, size: int) -> np.ndarray:
    path = root / reader.folder / name
    if not path.is_file():
        raise reader.missing(root, f"{reader.folder}/{name}")
    values = np.fromfile(path, np.uint8)
    if len(values) % size:
        raise DataMistake(f"{path} has {len(values):,} bytes, not a multiple of {size:,}; get it again.")
    return values.reshape(-1, size)
