"""Features on disk, a file of rows for some hundred images: what was computed before a kill need not be again.

    FOLDER/KEY/00000.safetensors ...   rows (images, features) float32, and the numbers of the images that they are of
    FOLDER/KEY/digests.json            the SHA-256 of each

A file takes its place at once, and holds tensors alone. One whose bytes are not those that were written is computed
again. FOLDER is $SHADOWMETRIC_CACHE, or `features` below the data root; whoever removes it loses time alone.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import torch
from filelock import FileLock
from torch import Tensor

from shadowmetric.app.training.runs.tensor_files import load_tensors, save_tensors
from shadowmetric.errors import Mistake
from shadowmetric.runtime.digests import Digests

IMAGES = 512  # of a file
VARIABLE = "SHADOWMETRIC_CACHE"


def cache_folder(data_root: Path) -> Path:
    """Return where features are kept."""
    named = os.environ.get(VARIABLE)
    return Path(named).expanduser() if named else data_root / "features"


@dataclass(frozen=True)
class Store:
    """The features of the images of one split."""

    folder: Path

    def make(self) -> None:
        """Make the folder, or say which variable names another."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Mistake(
                f"{self.folder} cannot be made for features ({error.strerror}); name another folder by the variable "
                f"{VARIABLE}."
            ) from None

    @property
    def lock(self) -> FileLock:
        """Return what whoever computes holds."""
        return FileLock(self.folder / ".lock")

    @property
    def digests(self) -> Digests:
        """Return the digests of its files."""
        return Digests(self.folder, f"remove {self.folder}, and its features are computed again")

    def file(self, part: int) -> Path:
        """Return the file of a part."""
        return self.folder / f"{part:05}.safetensors"

    def read(self, part: int) -> tuple[Tensor, Tensor] | None:
        """Return the rows of a part and the numbers of their images; None if they must be computed."""
        file = self.file(part)
        try:
            if not self.digests.has_record():
                return None
            self.digests.check(file)
            tensors = load_tensors(file)
            return tensors["rows"], tensors["numbers"]
        except (Mistake, OSError, ValueError, KeyError):  # not there, or not as it was written
            return None

    def write(self, part: int, rows: Tensor, numbers: list[int]) -> None:
        """Keep a part."""
        tensors = {"rows": rows, "numbers": torch.tensor(numbers, dtype=torch.int64)}
        try:
            self.digests.record()
        except Mistake:  # a damaged record is of no use
            self.digests.file.unlink(missing_ok=True)
        try:
            self.digests.write(self.file(part), lambda place: save_tensors(place, tensors))
        except OSError as error:
            raise Mistake(
                f"{self.file(part)} cannot be written ({error.strerror or error}); make room there, or name another "
                f"folder by the variable {VARIABLE}."
            ) from None


def parts_of(images: int) -> list[range]:
    """Return the numbers of the images of each file."""
    return [range(first, min(first + IMAGES, images)) for first in range(0, images, IMAGES)]
