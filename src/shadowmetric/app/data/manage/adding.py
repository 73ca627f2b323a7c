"""Add a dataset from its official archives: compare sums, unpack, look whether the reader can read it, put it in place.

An archive may hold the dataset's folder, or what belongs into that folder; one of loose images gets a folder by its
own name. Files that are no archives, such as a table of labels, are copied beside them.
"""

import hashlib
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shadowmetric.app.data.dataset import Dataset, Reader
from shadowmetric.app.data.manage.archive import DAMAGED, ZIPS, is_archive, unpack
from shadowmetric.app.data.manage.placing import stage_data_root
from shadowmetric.app.data.manage.unpacking import BLOCK, Limits
from shadowmetric.app.data.own.folder import IMAGES
from shadowmetric.errors import DataMistake
from shadowmetric.progress import Report, silent

MD5 = {  # (dataset, archive): the sums that torchvision has in its code
    ("mnist", "train-images-idx3-ubyte.gz"): "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    ("mnist", "train-labels-idx1-ubyte.gz"): "d53e105ee54ea40749a09fcbcd1e9432",
    ("mnist", "t10k-images-idx3-ubyte.gz"): "9fb629c4189551a2d022fa330f9573f3",
    ("mnist", "t10k-labels-idx1-ubyte.gz"): "ec29112dd5afa0611ce80d1b7f02629c",
    ("fashion_mnist", "train-images-idx3-ubyte.gz"): "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    ("fashion_mnist", "train-labels-idx1-ubyte.gz"): "25c81989df183df01b3e8a0aad5dffbe",
    ("fashion_mnist", "t10k-images-idx3-ubyte.gz"): "bef4ecab320f06d8554ea6380940ec79",
    ("fashion_mnist", "t10k-labels-idx1-ubyte.gz"): "bb300cfdad3c16e7a12a480ee83cd310",
    ("cifar10", "cifar-10-python.tar.gz"): "c58f30108f718f92721af3b95e74349a",
    ("cifar100", "cifar-100-python.tar.gz"): "eb9058c3a382ffc7106e4002c42a8d85",
}
INSIDE = {("inshop", "list_eval_partition.txt"): "Eval"}  # where a lone file belongs, if not at the top


@dataclass(frozen=True)
class Added:
    """What was put in place."""

    counts: dict[str, tuple[int, int]]  # part -> images, classes
    sums: dict[str, str]  # file -> sha256
    notes: tuple[str, ...]


def counts_of(dataset: Dataset) -> dict[str, tuple[int, int]]:
    """Return images and classes of each part."""
    return {part: (len(split), len(np.unique(split.labels))) for part, split in dataset.parts().items()}


def add_archives(
    reader: Reader,
    archives: Sequence[Path],
    root: Path,
    *,
    allow_partial: bool = False,
    limits: Limits | None = None,
    report: Report = silent,
) -> Added:
    """Put a dataset below the data root, or leave nothing behind."""
    check_files(archives, root)
    with stage_data_root(root, reader.folder) as fresh:
        sums = {path.name: verify_checksum(reader, path, report) for path in archives}
        destination = fresh / reader.folder
        destination.mkdir(parents=True)
        for number, path in enumerate(archives):
            if is_archive(path):
                unpacked = fresh / f"unpacked {number}"
                unpack(path, unpacked, limits=limits, report=report)
                move_into(destination, contents(unpacked, reader.folder), path)
            else:
                inside = destination / INSIDE.get((reader.name, path.name), "")
                inside.mkdir(exist_ok=True)
                shutil.copyfile(path, inside / path.name)
        try:
            dataset = reader.read(fresh, allow_partial)
        except DataMistake as error:
            raise DataMistake(f"nothing was added: {str(error).replace(str(fresh), str(root))}") from None
    return Added(counts_of(dataset), sums, dataset.notes)


def check_files(archives: Sequence[Path], root: Path) -> None:
    """Refuse files that are not there, and what would not fit on the disk."""
    for path in archives:
        if not path.is_file():
            raise DataMistake(f"{path} {'is a folder' if path.is_dir() else 'is not there'}; name the archive's file.")
    needed = sum(space_needed(path) for path in archives)
    check_space(root, needed)


def check_space(root: Path, needed: int) -> None:
    """Refuse to begin what would not fit on the disk."""
    existing = next(path for path in (root.absolute(), *root.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise DataMistake(
            f"{root} has {free / 1e9:,.1f} GB free and {needed / 1e9:,.1f} GB are needed; make room or choose another "
            "--data-root."
        )


def space_needed(path: Path) -> int:
    """Return how many bytes a file takes when it is unpacked, at the least."""
    if path.name.lower().endswith(ZIPS):
        try:
            with zipfile.ZipFile(path) as archive:
                return sum(member.file_size for member in archive.infolist())
        except DAMAGED:
            pass  # unpacking says what is wrong
    return path.stat().st_size


def verify_checksum(reader: Reader, path: Path, report: Report) -> str:
    """Return a file's sha256; refuse a file that has an official name and another md5 than the official one."""
    sha256, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    size = max(path.stat().st_size, 1)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            sha256.update(block)
            md5.update(block)
            report("checksum", file.tell() / size)
    official = MD5.get((reader.name, path.name))
    if official not in (None, md5.hexdigest()):
        raise DataMistake(f"{path} has the md5 {md5.hexdigest()}, the official archive {official}; get it again.")
    return sha256.hexdigest()


def contents(unpacked: Path, folder: str) -> list[Path]:
    """Return what belongs into the dataset's folder."""
    named = [unpacked / folder, *sorted(unpacked.glob(f"*/{folder}"))]
    top = next((path for path in named if path.is_dir()), unpacked)
    return [path for path in sorted(top.iterdir()) if path.name != "__MACOSX"]


def move_into(destination: Path, paths: list[Path], archive: Path) -> None:
    """Move files and folders; loose images into a folder that has the archive's name."""
    if paths and all(path.suffix.lower() in IMAGES for path in paths):
        destination = destination / archive.name.split(".")[0]
        destination.mkdir()
    for path in paths:
        if (destination / path.name).exists():
            raise DataMistake(f"{archive} has {path.name}, which an archive before it has too; name each one once.")
        path.rename(destination / path.name)
