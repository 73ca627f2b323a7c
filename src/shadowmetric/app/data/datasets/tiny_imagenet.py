"""Tiny ImageNet: 200 classes of ImageNet at 64 × 64 pixels.

    tiny-imagenet-200/wnids.txt                      a class, such as n02124075, to a line
    tiny-imagenet-200/words.txt                      CLASS, a tab, its names
    tiny-imagenet-200/train/CLASS/images/*.JPEG      500 each
    tiny-imagenet-200/val/val_annotations.txt        NAME, CLASS and a box, with tabs between
    tiny-imagenet-200/val/images/val_0.JPEG ...

Many people have sorted the val images into folders of their classes, for torchvision's ImageFolder: val/CLASS/,
val/CLASS/images/ or val/images/CLASS/ are read, with val_annotations.txt or without; so is train/CLASS/*.JPEG.

Split, the same classes on both sides: 100,000 images train; the 10,000 of the official validation test, since the
official test images have no labels. No list names the training images: they are what the folders hold.
Some images are gray; all are read with three channels.

Le and Yang, Tiny ImageNet Visual Recognition Challenge, Stanford CS 231N, 2015. From Stanford, tiny-imagenet-200.zip;
ImageNet's terms, for research, non-commercial.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from shadowmetric.app.data.dataset import STANDARD, Dataset, Reader
from shadowmetric.app.data.datasets.formats.layouts import Layout, read_copy
from shadowmetric.app.data.datasets.formats.lists import in_two, names_in, read_list

LIST, FLAT = "val/val_annotations.txt", "val/images"
SORTED = ("val/{wnid}", "val/{wnid}/images", "val/images/{wnid}")  # where people put the val images of a class
TRAIN = ("train/{wnid}/images", "train/{wnid}")


def read_tiny_imagenet(root: Path, allow_partial: bool) -> Dataset:
    """Return the images below a data root."""
    return read_copy(TINY_IMAGENET, root, LAYOUTS, allow_partial)


def parse_lists(reader: Reader, root: Path) -> Dataset:
    """Return the training images that are there, and the test images that the list or the folders name."""
    known = read_list(reader, root, "wnids.txt", _class, "one class, such as n02124075")
    words = dict(read_list(reader, root, "words.txt", _pair, "CLASS, a tab, NAMES"))
    classes = {wnid: words.get(wnid, wnid) for wnid in known}
    folder = root / reader.folder
    in_folders = images_of(folder, classes, SORTED)
    if in_folders and not (folder / LIST).is_file():
        test = in_folders
    else:
        place = {path.rpartition("/")[2]: path for path, _ in in_folders}

        def image(line: str) -> tuple[str, str]:
            name, wnid = _pair(line)
            if wnid not in classes:
                raise ValueError(wnid)
            return place.get(name, f"{FLAT}/{name}"), wnid

        test = read_list(reader, root, LIST, image, "NAME, a tab, a class of wnids.txt, and a box")
    return in_two(reader, folder, images_of(folder, classes, TRAIN), test, classes)


def images_of(folder: Path, classes: Iterable[str], places: Sequence[str]) -> list[tuple[str, str]]:
    """Return (path, class) of the images in the folders of each class, CLASS_2 before CLASS_10."""
    rows = []
    for wnid in classes:
        for inside in (place.format(wnid=wnid) for place in places):
            names = [name for name in names_in(folder / inside) if name.endswith(".JPEG")]
            rows += [(f"{inside}/{name}", wnid) for name in sorted(names, key=lambda name: (len(name), name))]
    return rows


def _class(line: str) -> str:
    (wnid,) = line.split()
    return wnid


def _pair(line: str) -> tuple[str, str]:
    first, second, *_ = line.strip().split("\t")
    return first, second


LAYOUTS = (Layout("its lists", ("wnids.txt", "words.txt", "train"), parse_lists),)
TINY_IMAGENET = Reader(
    name="tiny_imagenet",
    title="Tiny ImageNet",
    folder="tiny-imagenet-200",
    kind=STANDARD,
    images={"train": 100_000, "test": 10_000},
    classes={"train": 200, "test": 200},
    source="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    terms="ImageNet's: research, non-commercial",
    read=read_tiny_imagenet,
    archives=("tiny-imagenet-200.zip",),
    other_folders=("tiny-imagenet", "TinyImageNet200"),
)
