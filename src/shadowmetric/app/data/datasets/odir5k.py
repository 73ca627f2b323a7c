"""ODIR-5K: photographs of both eyes of 3,500 patients, of eight diagnoses.

    ODIR-5K/data.xlsx    a row a patient: ID, Left-Fundus and Right-Fundus (files), keywords for each, eight bits
    ODIR-5K/Training Images/0_left.jpg ...

The bits are a patient's and there may be several; an image here has one label. The rule, from the keywords of the
eye alone:

    1. keywords are parted at commas; those of SILENT, which speak of the image and not of the eye, are passed over
    2. each other keyword means the class in MEANING that it contains, "suspected" or not, and otherwise `other`
    3. an eye takes the class that all its keywords mean; where they mean several, or none is left, it is left out

On the official table this keeps 6,469 of 7,000 eyes: 501 have several classes and 30 none. As a check, the classes of
both eyes together, without `normal` where there is another, are the bits of 3,499 of the 3,500 patients (the other
one has bit N and nothing but `low image quality`).

Split, ours: `part_images(labels, 0.2, seed=0, groups=patients)`, the same classes on both sides and never one patient.
That is 5,176 images of 2,706 patients to train, 1,293 of 679 to test. The official test images have no labels.

Peking University, Ocular Disease Intelligent Recognition (odir2019.grand-challenge.org), 2019. The names of table and
folder are those of the archive on Kaggle, which may be unpacked as ODIR-5K/ODIR-5K. No terms stated, for research.
"""

import re
from contextlib import closing
from pathlib import Path
from typing import Any

from shadowmetric.app.data.dataset import STANDARD, Dataset, Reader, check_counts
from shadowmetric.app.data.datasets.lists import in_fifths, list_images, load, on_disk, parse_each
from shadowmetric.errors import DataMistake

TABLE = "data.xlsx"
COLUMNS = ("ID", "Left-Fundus", "Left-Diagnostic Keywords", "Right-Fundus", "Right-Diagnostic Keywords")
CLASSES = {
    "N": "normal",
    "D": "diabetic retinopathy",
    "G": "glaucoma",
    "C": "cataract",
    "A": "age-related macular degeneration",
    "H": "hypertensive retinopathy",
    "M": "pathological myopia",
    "O": "other",
}
MEANING = {
    "normal fundus": "N",
    "proliferative retinopathy": "D",  # nonproliferative too
    "diabetic retinopathy": "D",
    "glaucoma": "G",
    "cataract": "C",
    "age-related macular degeneration": "A",
    "hypertensive retinopathy": "H",
    "myopi": "M",  # pathological myopia, myopic maculopathy
}
SILENT = {
    "lens dust",
    "low image quality",
    "image offset",
    "optic disk photographically invisible",
    "anterior segment image",
    "no fundus image",
}


def read_odir5k(root: Path, allow_partial: bool) -> Dataset:
    """Return the eyes below a data root."""
    return check_counts(ODIR5K, on_disk(ODIR5K, parse_odir5k(root), allow_partial), allow_partial)


def parse_odir5k(root: Path) -> Dataset:
    """Return what the table names and the rule keeps, whether the files are there or not."""
    inside = "ODIR-5K/" if (root / ODIR5K.folder / "ODIR-5K").is_dir() else ""
    rows = load(ODIR5K, root, inside + TABLE, _table, "a spreadsheet")
    path = root / ODIR5K.folder / inside / TABLE
    expected = f"the columns {', '.join(COLUMNS)}"
    (columns,) = parse_each(
        path, enumerate(rows[:1], 1), lambda row: [row.index(name) for name in COLUMNS], expected, "row"
    )

    def eyes(row: tuple[Any, ...]) -> list[tuple[int, str, set[str]]]:
        patient, left, left_words, right, right_words = (row[column] for column in columns)
        sides = ((left, left_words), (right, right_words))
        return [(int(patient), str.strip(name), meanings(words)) for name, words in sides]

    numbered = [(number, row) for number, row in enumerate(rows[1:], 2) if any(row)]
    expected = "a patient's number, and a file and keywords for each eye"
    records = [eye for pair in parse_each(path, numbered, eyes, expected, "row") for eye in pair]
    kept = [(patient, name, *known) for patient, name, known in records if len(known) == 1]
    several = sum(len(known) > 1 for _, _, known in records)
    images = [(f"Training Images/{name}", known) for _, name, known in kept]
    whole = list_images(path.parent, images, CLASSES, [patient for patient, _, _ in kept])
    note = (
        f"One label for an eye, by its keywords: of {len(records):,} eyes {several:,} have several classes and "
        f"{len(records) - len(kept) - several:,} none; they are left out."
    )
    return in_fifths(ODIR5K, whole, CLASSES, (note,))


def meanings(keywords: str) -> set[str]:
    """Return the classes that the keywords of an eye mean."""
    phrases = [keyword.strip().lower() for keyword in re.split("[,，]", keywords)]
    diagnoses = [keyword for keyword in phrases if keyword and keyword not in SILENT]
    return {next((known for words, known in MEANING.items() if words in keyword), "O") for keyword in diagnoses}


def _table(path: Path) -> list[tuple[Any, ...]]:
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise DataMistake(
            "the table of ODIR-5K is a spreadsheet, and openpyxl is not installed; run `pip install "
            "'shadowmetric[datasets]'`."
        ) from None

    with closing(load_workbook(path, read_only=True)) as book:
        return list(book.worksheets[0].iter_rows(values_only=True))


ODIR5K = Reader(
    name="odir5k",
    title="ODIR-5K",
    folder="ODIR-5K",
    kind=STANDARD,
    images={"train": 5_176, "test": 1_293},
    classes={"train": 8, "test": 8},
    source="https://www.kaggle.com/datasets/andrewmvd/ocular-disease-recognition-odir5k",
    terms="none stated, research",
    read=read_odir5k,
    archives=("archive.zip",),
)
