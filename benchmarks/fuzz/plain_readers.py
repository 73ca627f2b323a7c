"""Readers that know nothing of this library: numpy, pillow, PyYAML, csv, tarfile, zipfile, safetensors, torch.

Where nothing in a damaged file says what it was, such as a letter of a label, another answer is right if it is what
the file now says; these say it.
"""

import csv
import json
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from PIL import Image, ImageOps

Bits = tuple[str, tuple[int, ...], bytes]  # kind, shape and bytes of an array


def read_zip(path: Path) -> dict[str, bytes]:
    """Return the files of a zip."""
    with zipfile.ZipFile(path) as archive:
        files = [one for one in archive.infolist() if not one.filename.endswith("/")]
        return {str(Path(one.filename)): archive.read(one) for one in files}


def read_tar(path: Path) -> dict[str, bytes]:
    """Return the files of a tar, packed or not."""
    found = {}
    with tarfile.open(path, "r:*") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isreg() or member.islnk() else None
            if file is not None:
                found[str(Path(member.name))] = file.read()
    return found


def read_pixels(path: Path) -> tuple[str, tuple[int, int], bytes]:
    """Return the pixels of an image, upright, in gray or color."""
    with Image.open(path) as image:
        image.load()
        upright = ImageOps.exif_transpose(image)
        kept = upright if upright.mode == "L" else upright.convert("RGB")
        return kept.mode, kept.size, kept.tobytes()


def read_table(path: Path) -> list[tuple[str, ...]]:
    """Return path, class and split of each line of a CSV file, in order."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        header, *lines = [[cell.strip() for cell in line] for line in csv.reader(file) if line]
    names = [name.lower() for name in header]
    columns = [names.index(name) if name in names else None for name in ("path", "label", "split")]
    return [tuple("" if one is None else line[one] for one in columns) for line in lines]


def read_yaml(path: Path) -> Any:
    """Return what YAML says."""
    return yaml.safe_load(path.read_bytes().decode("utf-8-sig"))


def read_lines(path: Path) -> list[Any]:
    """Return the lines of JSON up to the first that is none."""
    found = []
    for line in path.read_bytes().decode("utf-8", "replace").splitlines():
        try:
            found.append(json.loads(line))
        except (RecursionError, ValueError):
            break
    return found


def read_arrays(path: Path, *names: str) -> list[Bits]:
    """Return the arrays of these names, or the one of a .npy file."""
    loaded = np.load(path, allow_pickle=False)
    arrays = [loaded] if isinstance(loaded, np.ndarray) else [loaded[name] for name in names]
    return [bits(array) for array in arrays]


def bits(array: np.ndarray) -> Bits:
    """Return an array to be compared; a row of whole numbers is the same in any number of bits."""
    if array.ndim == 1 and array.dtype.kind in "iu":
        array = array.astype(np.int64)
    if array.ndim == 1 and array.dtype.kind in "US":
        words = array.astype(str).tolist()
        return "U", array.shape, "\0".join(words).encode("utf-8", "surrogatepass")
    return array.dtype.name, array.shape, array.tobytes()


def read_safetensors(path: Path) -> dict[str, Bits]:
    """Return the tensors of a file by name."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        return tensor_bits({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118


def read_torch(path: Path) -> dict[str, Bits]:
    """Return the tensors of torch's file by name."""
    found = torch.load(path, weights_only=True)
    return tensor_bits(found.get("state_dict", found))


def tensor_bits(tensors: dict[str, Any]) -> dict[str, Bits]:
    """Return tensors to be compared bit for bit."""
    return {
        name: (str(value.dtype), tuple(value.shape), value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        for name, value in tensors.items()
        if isinstance(value, torch.Tensor)
    }


def read_idx(images: Path, labels: Path) -> list[bytes]:
    """Return the bytes of images and labels behind the heads of their files."""
    return [images.read_bytes()[16:], labels.read_bytes()[8:]]


def read_cub_lists(folder: Path) -> list[tuple[str, str]]:
    """Return path and name of the class of each image that the lists name and that is there, sorted."""

    def pairs(name: str) -> list[list[str]]:
        text = (folder / name).read_text(encoding="utf-8-sig", errors="surrogateescape")
        return [line.split(maxsplit=1) for line in text.split("\n") if line.strip()]

    classes = {int(number): name.strip() for number, name in pairs("classes.txt")}
    class_of = {int(number): int(label) for number, label in pairs("image_class_labels.txt")}
    rows = [(path.strip(), classes[class_of[int(number)]]) for number, path in pairs("images.txt")]
    return sorted(row for row in rows if os.path.isfile(folder / "images" / row[0]))
