"""Embeddings and labels from NumPy files, as any tool writes them.

    .npy    one array: embeddings (rows, dim), or labels (rows,)
    .npz    arrays by name: `embeddings` and `labels`, perhaps `gallery` and `gallery_labels`

A file is known by its first bytes, not by its name. Nothing is ever unpickled. Embeddings are float16, float32 or
float64 as this machine stores them. Labels are integers, which become int64, or strings, which `numbered` numbers.
What cannot be read is a ValueError of one sentence: the file, what was found, what to do.

Memory: embeddings in a .npy file stay on disk, mapped read-only. (Linux refuses a mapping that can be written to,
NumPy's mode "c", if the file is larger than the machine's memory.) Arrays of a .npz file, and labels, are read whole.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

ROW_TYPES = ("float16", "float32", "float64")
LARGEST_LABEL = 2**63 - 1
NPY, ZIP = b"\x93NUMPY", b"PK"  # how the files begin
UNREADABLE = Exception  # whatever NumPy makes of damaged bytes: a negative shape is an OverflowError, ( a TokenError


class LabeledRows(NamedTuple):
    """Embeddings and the label of each."""

    rows: np.ndarray  # (rows, dim)
    labels: np.ndarray  # (rows,) int64 or strings


class Numbered(NamedTuple):
    """Labels as numbers."""

    labels: list[np.ndarray]  # int64
    names: list[str] | None  # of the numbers 0, 1, ...; None if labels were numbers already


def read_set(
    path: Path, labels_path: Path | None = None, *, rows: str = "embeddings", labels: str = "labels"
) -> LabeledRows:
    """Return the embeddings of a file with the labels that it brings, or those of a second file.

    rows, labels: the names of the arrays, if the file is a .npz.
    """
    if labels_path is None and not is_npz(path):
        raise ValueError(f"{path} holds no labels; give a file with one label for each row beside it.")
    found_rows = read_rows(path, rows)
    found_labels = read_labels(path, labels) if labels_path is None else read_labels(labels_path)
    if len(found_rows) != len(found_labels):
        other = f"'{labels}' in it" if labels_path is None else str(labels_path)
        raise ValueError(
            f"{path} has {len(found_rows):,} rows and {other} {len(found_labels):,} labels; "
            "give one label for each row."
        )
    return LabeledRows(found_rows, found_labels)


def read_rows(path: Path, key: str = "embeddings") -> np.ndarray:
    """Return the embeddings of a file, (rows, dim): mapped from a .npy file, read from a .npz file."""
    rows, called = _array(path, key)
    if rows.ndim != 2:
        swapped = "; if these are the labels, name the embeddings first" if rows.ndim == 1 else ""
        raise ValueError(f"{called} has shape {rows.shape}; embeddings must be (rows, dim){swapped}.")
    if rows.dtype.name not in ROW_TYPES:
        remedy = "save rows.astype('float32')" if rows.dtype.kind in "iubgf" else "save an array of numbers"
        raise ValueError(f"{called} is {rows.dtype}; embeddings must be {', '.join(ROW_TYPES)}: {remedy}.")
    if not rows.dtype.isnative:
        raise ValueError(
            f"{called} has the byte order of another machine ({rows.dtype.str}); save rows.astype('{rows.dtype.name}')."
        )
    if rows.size == 0:
        raise ValueError(f"{called} is empty, of shape {rows.shape}; give at least one row of one number.")
    return rows


def read_labels(path: Path, key: str = "labels") -> np.ndarray:
    """Return the labels of a file, (rows,): int64 or strings."""
    labels, called = _array(path, key)
    if labels.ndim != 1:
        remedy = (
            "labels.argmax(1), if they are one-hot" if labels.ndim == 2 and labels.shape[1] > 1 else "labels.ravel()"
        )
        raise ValueError(f"{called} has shape {labels.shape}; give one label for each row: save {remedy}.")
    kind = labels.dtype.kind
    if kind == "U":
        return np.array(labels)
    if kind == "S":
        return _decode(labels, called)
    if kind == "f":
        _refuse_floats(labels, called)
    if kind not in "iu":
        raise ValueError(f"{called} is {labels.dtype}; labels must be integers or strings: save labels.astype(int).")
    if len(labels) and int(labels.max()) > LARGEST_LABEL:
        raise ValueError(f"{called} has the label {int(labels.max())}; labels must be at most 2**63 - 1.")
    return labels.astype(np.int64)


def is_npz(path: Path) -> bool:
    """Return whether a file holds arrays by name; refuse what is neither .npz nor .npy."""
    try:
        with path.open("rb") as file:
            start = file.read(len(NPY))
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist; give a .npy or .npz file, or the folder of a run.") from None
    except IsADirectoryError:
        raise ValueError(f"{path} is a folder; give a .npy or .npz file.") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be opened: {error.strerror}; give a .npy or .npz file.") from None
    if not start:
        raise ValueError(f"{path} is an empty file; write it again with numpy.save.")
    if start != NPY and not start.startswith(ZIP):
        raise ValueError(f"{path} is neither a .npy nor a .npz file; write one with numpy.save.")
    return start.startswith(ZIP)


def keys_of(path: Path) -> list[str]:
    """Return the names of the arrays in a file; none for a .npy file."""
    if not is_npz(path):
        return []
    try:
        with path.open("rb") as file, np.load(file) as arrays:
            return list(arrays.files)
    except UNREADABLE as error:
        raise ValueError(_damage_error(path, error)) from None


def number_labels(*labels: np.ndarray) -> Numbered:
    """Number labels that are strings by their sorted order, all sets alike; integers stay as they are."""
    kinds = {part.dtype.kind == "U" for part in labels}
    if len(kinds) > 1:
        which = " and ".join("strings" if part.dtype.kind == "U" else "integers" for part in labels)
        raise ValueError(f"the labels of the queries and of the gallery are {which}; give both as the same kind.")
    if kinds == {False}:
        return Numbered(list(labels), None)
    names, numbers = np.unique(np.concatenate(labels), return_inverse=True)
    ends = np.cumsum([len(part) for part in labels])[:-1]
    return Numbered(np.split(numbers.astype(np.int64), ends), names.tolist())


def _array(path: Path, key: str) -> tuple[np.ndarray, str]:
    """Return an array, and what to call it in a sentence."""
    if not is_npz(path):
        try:
            return np.load(path, mmap_mode="r"), str(path)
        except UNREADABLE as error:
            raise ValueError(_unreadable(str(path), path, error)) from None
    keys, called = keys_of(path), f"'{key}' in {path}"
    if any(name.endswith("/data.pkl") for name in keys):
        raise ValueError(f"{path} was written by torch.save; write it with numpy.save(path, tensor.numpy()).")
    if key not in keys:
        has = ", ".join(f"'{name}'" for name in keys) or "nothing"
        raise ValueError(f"{path} has no array '{key}', it has {has}; write it with numpy.savez(path, {key}=...).")
    try:
        with path.open("rb") as file, np.load(file) as arrays:
            array = arrays[key]
    except UNREADABLE as error:
        raise ValueError(_unreadable(called, path, error)) from None
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{called} is no array; write the file with numpy.savez.")
    return array, called


def _unreadable(called: str, path: Path, error: BaseException) -> str:
    if isinstance(error, ValueError) and "object" in str(error).lower():
        return f"{called} holds Python objects, which are never unpickled; save numbers, or labels.astype(str)."
    return _damage_error(path, error)


def _damage_error(path: Path, error: BaseException) -> str:
    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return f"{path} is damaged or cut short ({reason}); write it again."


def _decode(labels: np.ndarray, called: str) -> np.ndarray:
    try:
        return np.strings.decode(labels, "utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{called} holds bytes that are no UTF-8; save the labels as strings.") from None


def _refuse_floats(labels: np.ndarray, called: str) -> None:
    fractions = np.flatnonzero(~np.isfinite(labels) | (labels != np.trunc(labels)))
    if len(fractions) == 0:
        raise ValueError(f"{called} is {labels.dtype}; labels must be integers or strings: save labels.astype(int).")
    row = int(fractions[0])
    raise ValueError(f"{called} has {labels[row]:g} in row {row}; labels must be integers or strings.")
