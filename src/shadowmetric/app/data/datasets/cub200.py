"""CUB-200-2011: birds of 200 kinds.

    CUB_200_2011/images.txt                NUMBER PATH, below images/
    CUB_200_2011/image_class_labels.txt    NUMBER CLASS
    CUB_200_2011/classes.txt               CLASS NAME
    CUB_200_2011/images/001.Black_footed_Albatross/*.jpg ...

Without images.txt the folders of the classes are read, whose names begin with their numbers: those in images/, in
train/ and test/, or in the dataset's folder.

Split, of kinds unseen in training: classes 1 to 100 train (5,864 images), classes 101 to 200 test (5,924).
`train_test_split.txt` parts the images of each class for classification; it is not used here.

Wah, Branson, Welinder, Perona and Belongie, The Caltech-UCSD Birds-200-2011 Dataset, 2011. From Caltech,
CUB_200_2011.tgz; for research, non-commercial.
"""

from pathlib import Path

from shadowmetric.app.data.dataset import ZERO_SHOT, Dataset, Reader
from shadowmetric.app.data.datasets.formats.class_folders import TEST, TRAIN, class_rows
from shadowmetric.app.data.datasets.formats.layouts import Layout, read_copy
from shadowmetric.app.data.datasets.formats.lists import by_number, in_two, parse_each, read_list

LAST_TRAINING_CLASS = 100
FIRST_CLASS = "001.Black_footed_Albatross"
PLACES = ("images", *TRAIN, *TEST, "")  # of folders of classes


def read_cub200(root: Path, allow_partial: bool) -> Dataset:
    """Return the birds below a data root."""
    return read_copy(CUB200, root, LAYOUTS, allow_partial)


def parse_lists(reader: Reader, root: Path) -> Dataset:
    """Return what the lists name, whether the files are there or not."""
    folder = root / reader.folder
    named = read_list(reader, root, "classes.txt", _parse_numbers, "`CLASS NAME`")
    classes = dict(sorted(by_number(folder / "classes.txt", named).items()))

    def numbered_class(line: str) -> tuple[int, int]:
        number, known = map(int, line.split())
        if known not in classes:
            raise ValueError(known)
        return number, known

    expected = "`NUMBER CLASS` with a class of classes.txt"
    labels = read_list(reader, root, "image_class_labels.txt", numbered_class, expected)
    class_of = by_number(folder / "image_class_labels.txt", labels)

    def image(line: str) -> tuple[str, int]:
        number, path = _parse_numbers(line)
        return f"images/{path}", class_of[number]

    rows = read_list(reader, root, "images.txt", image, "`NUMBER PATH` with a number of image_class_labels.txt")
    return in_halves(reader, root, rows, classes)


def parse_folders(reader: Reader, root: Path) -> Dataset:
    """Return the images in folders of classes."""
    folder = root / reader.folder
    rows = class_rows(folder, PLACES[:-1]) or class_rows(folder, PLACES[-1:])

    def numbered(row: tuple[str, str]) -> tuple[str, int]:
        return row[0], int(row[1].partition(".")[0])

    expected = f"an image in a folder of a class, such as {FIRST_CLASS}"
    numbers = parse_each(folder, enumerate(rows, 1), numbered, expected, "image")
    names = {known: name for (_, name), (_, known) in zip(rows, numbers, strict=True)}
    return in_halves(reader, root, numbers, dict(sorted(names.items())))


def in_halves(reader: Reader, root: Path, rows: list[tuple[str, int]], classes: dict[int, str]) -> Dataset:
    """Return the dataset of (path, class) rows, its first classes in training and the others in the test."""
    train = [row for row in rows if row[1] <= LAST_TRAINING_CLASS]
    test = [row for row in rows if row[1] > LAST_TRAINING_CLASS]
    return in_two(reader, root / reader.folder, train, test, classes)


def _parse_numbers(line: str) -> tuple[int, str]:
    number, text = line.strip().split(maxsplit=1)
    return int(number), text


LAYOUTS = (
    Layout("the official lists", ("images.txt", "image_class_labels.txt", "classes.txt"), parse_lists),
    Layout("a folder per class", ("images", *TRAIN, FIRST_CLASS), parse_folders),
)
CUB200 = Reader(
    name="cub200",
    title="CUB-200-2011",
    folder="CUB_200_2011",
    kind=ZERO_SHOT,
    images={"train": 5_864, "test": 5_924},
    classes={"train": 100, "test": 100},
    source="https://data.caltech.edu/records/65de6-vp158",
    terms="research, non-commercial",
    read=read_cub200,
    archives=("CUB_200_2011.tgz",),
    other_folders=("cub200", "cub2011", "cub"),
)
