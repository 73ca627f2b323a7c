"""ODIR-5K: photographs of both eyes of 3,500 patients, of eight diagnoses.

    ODIR-5K/data.xlsx    a row a patient: ID, Left-Fundus and Right-Fundus (files), keywords for each, eight bits
    ODIR-5K/Training Images/0_left.jpg ...

as on Kaggle, or as the challenge gives them (TABLES, FOLDERS), its own archive with Training Set/ too.

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

Peking University, Ocular Disease Intelligent Recognition (odir2019.grand-challenge.org), 2019. No terms stated, for
research.
"""

import re
from contextlib import closing
from pathlib import Path
from typing import Any

from shadowmetric.app.data.dataset import STANDARD, Dataset, Reader
from shadowmetric.app.data.datasets.formats.layouts import Layout, first_there, read_copy
from shadowmetric.app.data.datasets.formats.lists import in_fifths, list_images, load, parse_each
from shadowmetric.errors import DataMistake

TABLES = (
    "data.xlsx",
    "ODIR-5K_Training_Annotations(Updated)_V2.xlsx",
    "ODIR-5K_Training_Annotations(Updated).xlsx",
    "ODIR-5K_Training_Annotations.xlsx",
    "Training Set/Annotation/training annotation (English).xlsx",
)
FOLDERS = (
    "Training Images",
    "ODIR-5K_Training_Images/ODIR-5K_Training_Dataset",
    "ODIR-5K_Training_Dataset",
    "ODIR-5K_Training_Images",
    "Training Set/Images",
)
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
    return read_copy(ODIR5K, root, LAYOUTS, allow_partial)


def parse_table(reader: Reader, root: Path) -> Dataset:
    """Return what the table names and the rule keeps, whether the files are there or not."""
    folder = root / reader.folder
    table, inside = first_there(folder, TABLES), first_there(folder, FOLDERS)
    rows = load(reader, root, table, _table, "a spreadsheet")
    path = folder / table
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
    images = [(f"{inside}/{name}", known) for _, name, known in kept]
    whole = list_images(folder, images, CLASSES, [patient for patient, _, _ in kept])
    note = (
        f"One label for an eye, by its keywords: of {len(records):,} eyes {several:,} have several classes and "
        f"{len(records) - len(kept) - several:,} none; they are left out."
    )
    return in_fifths(reader, whole, CLASSES, (note,))


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


LAYOUTS = (Layout("its table", TABLES, parse_table),)
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
    other_folders=("ODIR", "OIA-ODIR", "ocular-disease-recognition-odir5k"),
)
