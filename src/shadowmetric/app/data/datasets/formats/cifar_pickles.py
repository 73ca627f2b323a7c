"""The pickles in which CIFAR-10 and CIFAR-100 are published, read without trust.

A pickle can run any program when it is read. So a file is only read if its md5 is that of the official file, and even
then by a reader that makes nothing but NumPy arrays and plain Python values.
"""

import hashlib
import io
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from shadowmetric.app.data.dataset import Reader, Split
from shadowmetric.app.data.images import ArrayImages
from shadowmetric.errors import DataMistake

SIDE, CHANNELS = 32, 3
ARRAY_PARTS = {("multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype")}


class ArrayUnpickler(pickle.Unpickler):
    """Reads arrays and plain values; whatever else a pickle asks for is refused."""

    def find_class(self, module: str, name: str) -> object:
        """Return one of the three parts of which a pickled array is made."""
        if (module.removeprefix("numpy.core.").removeprefix("numpy._core."), name) not in ARRAY_PARTS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is no part of an array")
        return np._core.multiarray._reconstruct if name == "_reconstruct" else getattr(np, name)  # pyright: ignore


def read_pickle(path: Path, md5: str) -> dict:
    """Return what an official file holds; the very bytes that are compared are the ones read."""
    content = path.read_bytes()
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if digest != md5:
        raise DataMistake(
            f"{path} has the md5 {digest} and the official file {md5}, so it was not opened; get the official archive."
        )
    try:
        return ArrayUnpickler(io.BytesIO(content), encoding="latin1").load()
    except pickle.UnpicklingError as error:
        raise DataMistake(f"{path} was not read: {error}; get the official archive.") from None


def find_pickles(reader: Reader, root: Path, names: Sequence[str]) -> dict[str, Path]:
    """Return the official files by name, or say which is missing."""
    paths = {name: root / reader.folder / name for name in names}
    for name, path in paths.items():
        if not path.is_file():
            raise reader.missing(root, f"{reader.folder}/{name}")
    return paths


def read_split(paths: Sequence[Path], sums: Mapping[str, str], labels_key: str, title: str) -> Split:
    """Return the images of some files, one after another."""
    batches = [read_pickle(path, sums[path.name]) for path in paths]
    pixels = np.concatenate([part["data"] for part in batches]).reshape(-1, CHANNELS, SIDE, SIDE)
    labels = np.concatenate([np.asarray(part[labels_key], np.int64) for part in batches])
    return Split(ArrayImages(torch.from_numpy(pixels), title), labels)
