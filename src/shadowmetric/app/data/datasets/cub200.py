"""CUB-200-2011: birds of 200 kinds.

    CUB_200_2011/images.txt                NUMBER PATH, below images/
    CUB_200_2011/image_class_labels.txt    NUMBER CLASS
    CUB_200_2011/classes.txt               CLASS NAME
    CUB_200_2011/images/001.Black_footed_Albatross/*.jpg ...

Split, of kinds unseen in training: classes 1 to 100 train (5,864 images), classes 101 to 200 test (5,924).
`train_test_split.txt` parts the images of each class for classification; it is not used here.

Wah, Branson, Welinder, Perona and Belongie, The Caltech-UCSD Birds-200-2011 Dataset, 2011. From Caltech,
CUB_200_2011.tgz; for research, non-commercial.
"""

from pathlib import Path

from shadowmetric.app.data.dataset import ZERO_SHOT, Dataset, Reader, check_counts
from shadowmetric.app.data.datasets.lists import in_two, on_disk, read_list

LAST_TRAINING_CLASS = 100


def read_cub200(root: Path, allow_partial: bool) -> Dataset:
    """Return the birds below a data root."""
    return check_counts(CUB200, on_disk(CUB200, parse_cub200(root), allow_partial), allow_partial)


def parse_cub200(root: Path) -> Dataset:
    """Return what the lists name, whether the files are there or not."""
    classes = dict(sorted(read_list(CUB200, root, "classes.txt", _parse_numbers, "`CLASS NAME`")))

    def numbered_class(line: str) -> tuple[int, int]:
        number, known = map(int, line.split())
        if known not in classes:
            raise ValueError(known)
        return number, known

    expected = "`NUMBER CLASS` with a class of classes.txt"
    class_of = dict(read_list(CUB200, root, "image_class_labels.txt", numbered_class, expected))

    def image(line: str) -> tuple[str, int]:
        number, path = _parse_numbers(line)
        return f"images/{path}", class_of[number]

    rows = read_list(CUB200, root, "images.txt", image, "`NUMBER PATH` with a number of image_class_labels.txt")
    train = [row for row in rows if row[1] <= LAST_TRAINING_CLASS]
    test = [row for row in rows if row[1] > LAST_TRAINING_CLASS]
    return in_two(CUB200, root / CUB200.folder, train, test, classes)


def _parse_numbers(line: str) -> tuple[int, str]:
    number, text = line.strip().split(maxsplit=1)
    return int(number), text


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
)
