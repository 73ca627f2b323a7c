"""Somebody's own images in a NumPy file: `npz:FILE`.

    images, labels[, split]                                    split: "train" or "test" for each image
    train_images, train_labels, test_images, test_labels

Images are uint8, (images, height, width) or (images, height, width, 1 or 3). Labels are integers or strings. Without a
split a fifth is held out as the test part (assembly.py). Nothing is ever unpickled. Memory: the arrays, twice for a
moment.
"""

from pathlib import Path

import numpy as np
import torch

from shadowmetric.app.data.dataset import Dataset, Split
from shadowmetric.app.data.images import ArrayImages
from shadowmetric.app.data.own.arrays import UNREADABLE, is_npz, keys_of, read_labels
from shadowmetric.app.data.own.assembly import assemble, number_classes
from shadowmetric.errors import DataMistake

ONE, TWO = ("images", "labels"), ("train_images", "train_labels", "test_images", "test_labels")


def read_npz(path: Path) -> Dataset:
    """Return the dataset of a file."""
    try:
        keys = keys_of(path) if is_npz(path) else None
        if keys is None:
            raise DataMistake(f"{path} holds one array; write images and labels with numpy.savez.")
        if set(TWO) <= set(keys):
            return _from_parts(path)
        if set(ONE) <= set(keys):
            return _from_whole(path, "split" in keys)
    except DataMistake:
        raise
    except ValueError as error:
        raise DataMistake(str(error)) from None
    raise DataMistake(
        f"{path} has the arrays {', '.join(sorted(keys)) or 'none'}; give {', '.join(ONE)} (and perhaps split), "
        f"or {', '.join(TWO)}."
    )


def _from_whole(path: Path, has_split: bool) -> Dataset:
    pixels, names = _read_labeled(path, *ONE)
    test = None
    if has_split:
        parts = read_labels(path, "split")
        unknown = sorted(set(parts.tolist()) - {"train", "test"}, key=str)
        if unknown or len(parts) != len(names):
            what = f"the value {unknown[0]!r}" if unknown else f"{len(parts):,} values for {len(names):,} images"
            raise DataMistake(f"'split' in {path} has {what}; give 'train' or 'test' for each image.")
        test = parts == "test"
    return _dataset(path, pixels, names, test)


def _from_parts(path: Path) -> Dataset:
    (train, train_names), (test, test_names) = _read_labeled(path, *TWO[:2]), _read_labeled(path, *TWO[2:])
    if train.shape[1:] != test.shape[1:]:
        raise DataMistake(
            f"{path} has training images of {train.shape[1:]} and test images of {test.shape[1:]}; give both one shape."
        )
    in_test = np.arange(len(train) + len(test)) >= len(train)
    return _dataset(path, np.concatenate([train, test]), train_names + test_names, in_test)


def _read_labeled(path: Path, images: str, labels: str) -> tuple[np.ndarray, list[str]]:
    """Return images, (images, channels, height, width), and the class of each."""
    pixels, names = read_pixels(path, images), read_labels(path, labels)
    if len(pixels) != len(names):
        raise DataMistake(
            f"{path} has {len(pixels):,} '{images}' and {len(names):,} '{labels}'; give one label for each image."
        )
    return pixels, [str(name) for name in names.tolist()]


def _dataset(path: Path, pixels: np.ndarray, names: list[str], test: np.ndarray | None) -> Dataset:
    labels, classes = number_classes(names)
    return assemble(f"npz:{path}", Split(ArrayImages(torch.from_numpy(pixels), "image"), labels), classes, test)


def read_pixels(path: Path, key: str) -> np.ndarray:
    """Return an array of images as (images, channels, height, width)."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            pixels = arrays[key]
    except UNREADABLE as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise DataMistake(f"'{key}' in {path} cannot be read ({reason}); write it again as uint8.") from None
    if pixels.ndim == 3:
        pixels = pixels[..., None]
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[3] not in (1, 3) or 0 in pixels.shape[1:]:
        raise DataMistake(
            f"'{key}' in {path} is {pixels.dtype} of shape {pixels.shape}; give uint8 of shape (images, height, width) "
            "or (images, height, width, 1 or 3)."
        )
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
