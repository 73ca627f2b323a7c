"""Tiny ImageNet: 200 classes of ImageNet at 64 × 64 pixels.

    tiny-imagenet-200/wnids.txt                      a class, such as n02124075, to a line
    tiny-imagenet-200/words.txt                      CLASS, a tab, its names
    tiny-imagenet-200/train/CLASS/images/*.JPEG      500 each
    tiny-imagenet-200/val/val_annotations.txt        NAME, CLASS and a box, with tabs between
    tiny-imagenet-200/val/images/val_0.JPEG ...

Split, the same classes on both sides: 100,000 images train; the 10,000 of the official validation test, since the
official test images have no labels. No list names the training images: they are what the folders hold.
Some images are gray; all are read with three channels.

Le and Yang, Tiny ImageNet Visual Recognition Challenge, Stanford CS 231N, 2015. From Stanford, tiny-imagenet-200.zip;
ImageNet's terms, for research, non-commercial.
"""

from pathlib import Path

from shadowmetric.app.data.dataset import STANDARD, Dataset, Reader, check_counts
from shadowmetric.app.data.datasets.lists import in_two, names_in, on_disk, read_list


def read_tiny_imagenet(root: Path, allow_partial: bool) -> Dataset:
    """Return the images below a data root."""
    dataset = on_disk(TINY_IMAGENET, parse_tiny_imagenet(root), allow_partial)
    return check_counts(TINY_IMAGENET, dataset, allow_partial)


def parse_tiny_imagenet(root: Path) -> Dataset:
    """Return the training images that are there, and the test images that the list names."""
    known = read_list(TINY_IMAGENET, root, "wnids.txt", _class, "one class, such as n02124075")
    words = dict(read_list(TINY_IMAGENET, root, "words.txt", _pair, "CLASS, a tab, NAMES"))
    classes = {wnid: words.get(wnid, wnid) for wnid in known}

    def image(line: str) -> tuple[str, str]:
        name, wnid = _pair(line)
        if wnid not in classes:
            raise ValueError(wnid)
        return f"val/images/{name}", wnid

    expected = "NAME, a tab, a class of wnids.txt, and a box"
    test = read_list(TINY_IMAGENET, root, "val/val_annotations.txt", image, expected)
    folder = root / TINY_IMAGENET.folder
    train = [(path, wnid) for wnid in classes for path in _training_images(folder, wnid)]
    return in_two(TINY_IMAGENET, folder, train, test, classes)


def _training_images(folder: Path, wnid: str) -> list[str]:
    """Return the paths of a class, CLASS_2 before CLASS_10."""
    inside = f"train/{wnid}/images"
    names = [name for name in names_in(folder / inside) if name.endswith(".JPEG")]
    return [f"{inside}/{name}" for name in sorted(names, key=lambda name: (len(name), name))]


def _class(line: str) -> str:
    (wnid,) = line.split()
    return wnid


def _pair(line: str) -> tuple[str, str]:
    first, second, *_ = line.strip().split("\t")
    return first, second


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
)
