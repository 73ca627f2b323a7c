"""HAM10000: 10,015 photographs of 7,470 pigmented skin lesions, of seven diagnoses.

    HAM10000/HAM10000_metadata.csv    lesion_id,image_id,dx,... below a line that says so
    HAM10000/HAM10000_images/ISIC_0024306.jpg ...
        or the two official folders, HAM10000_images_part_1 and HAM10000_images_part_2

The table may be called HAM10000_metadata or HAM10000_metadata.tab, with tabs, as the Dataverse gives it. Images are
looked for by their names in every folder of the dataset and one below, in those that are named as the official ones
first. Without the table the two lists of the ISIC challenge 2018 are read, which are of the same images:

    ISIC2018_Task3_Training_GroundTruth.csv       image,MEL,NV,BCC,AKIEC,BKL,DF,VASC
    ISIC2018_Task3_Training_LesionGroupings.csv   image,lesion_id,...
    each in the folder of its name or in the dataset's; ISIC2018_Task3_Training_Input/ISIC_0024306.jpg ...

Split, ours, since there is no official one with labels: `part_images(labels, 0.2, seed=0, groups=lesions)`, the same
diagnoses on both sides and never one lesion. That is 8,012 images of 6,000 lesions to train, 2,003 of 1,470 to test;
the order of a table does not matter.

Tschandl, Rosendahl and Kittler, The HAM10000 dataset, Scientific Data 5, 2018. From the Harvard Dataverse, two archives
and the table; CC BY-NC.
"""

import csv
from pathlib import Path

import numpy as np

from shadowmetric.app.data.dataset import STANDARD, Dataset, Reader
from shadowmetric.app.data.datasets.formats.layouts import Layout, first_there, folders_in, read_copy, spell
from shadowmetric.app.data.datasets.formats.lists import in_fifths, list_images, names_in, read_list

FOLDERS = ("HAM10000_images", "HAM10000_images_part_1", "HAM10000_images_part_2", "ISIC2018_Task3_Training_Input")
TABLES = ("HAM10000_metadata.csv", "HAM10000_metadata", "HAM10000_metadata.tab")
TRUTH, LESIONS = (f"ISIC2018_Task3_Training_{name}" for name in ("GroundTruth", "LesionGroupings"))
HEADINGS = ("image", "MEL", "NV", "BCC", "AKIEC", "BKL", "DF", "VASC")  # of the challenge's list
DIAGNOSES = {
    "akiec": "actinic keratosis or intraepithelial carcinoma",
    "bcc": "basal cell carcinoma",
    "bkl": "benign keratosis",
    "df": "dermatofibroma",
    "mel": "melanoma",
    "nv": "melanocytic nevus",
    "vasc": "vascular lesion",
}


def read_ham10000(root: Path, allow_partial: bool) -> Dataset:
    """Return the lesions below a data root."""
    return read_copy(HAM10000, root, LAYOUTS, allow_partial)


def parse_table(reader: Reader, root: Path) -> Dataset:
    """Return what the table names, whether the files are there or not."""
    expected = f"`lesion_id,image_id,dx,...` with dx one of {', '.join(DIAGNOSES)}"
    table = first_there(root / reader.folder, TABLES)
    return by_lesion(reader, root, read_list(reader, root, table, _row, expected, skip=1))


def parse_challenge(reader: Reader, root: Path) -> Dataset:
    """Return what the lists of the challenge name, whether the files are there or not."""
    folder = root / reader.folder
    truth, lesions = (first_there(folder, (f"{name}.csv", f"{name}/{name}.csv")) for name in (TRUTH, LESIONS))
    expected = "`image,lesion_id,...`"
    lesion_of = dict(read_list(reader, root, lesions, lambda line: _cells(line, 2), expected, skip=1))

    def row(line: str) -> tuple[str, str, str]:
        image, *marks = _cells(line, len(HEADINGS))
        (place,) = [place for place, mark in enumerate(marks) if float(mark) == 1]
        return lesion_of[image], f"{image}.jpg", HEADINGS[1 + place].lower()

    expected = f"`{','.join(HEADINGS)}` with one 1, and an image of {lesions}"
    return by_lesion(reader, root, read_list(reader, root, truth, row, expected, skip=1))


def by_lesion(reader: Reader, root: Path, rows: list[tuple[str, str, str]]) -> Dataset:
    """Return the dataset of (lesion, name of the file, diagnosis) rows."""
    folder = root / reader.folder
    inside = {name: part for part in reversed(image_folders(folder)) for name in names_in(folder / part)}
    images = [(f"{inside.get(name, FOLDERS[0])}/{name}".removeprefix("./"), diagnosis) for _, name, diagnosis in rows]
    lesions = np.unique([lesion for lesion, _, _ in rows], return_inverse=True)[1]
    whole = list_images(folder, images, DIAGNOSES, lesions)
    return in_fifths(reader, whole, DIAGNOSES)


def image_folders(folder: Path) -> list[str]:
    """Return the folders that may hold images: those with an official name first, the dataset's own last."""
    outer = folders_in(folder)
    folders = [*outer, *(f"{first}/{name}" for first in outer for name in folders_in(folder / first))]
    official = {spell(name) for name in FOLDERS}
    return [*sorted(folders, key=lambda name: spell(name.rpartition("/")[2]) not in official), "."]


def _row(line: str) -> tuple[str, str, str]:
    """Return the lesion, the name of the file and the diagnosis."""
    lesion, image, diagnosis = _cells(line, 3)
    if not (lesion and image and diagnosis in DIAGNOSES):
        raise ValueError(line)
    return lesion, f"{image}.jpg", diagnosis


def _cells(line: str, count: int) -> tuple[str, ...]:
    """Return the first cells of a line, between commas or tabs."""
    cells = next(csv.reader([line], delimiter="\t" if "\t" in line else ","))
    if len(cells) < count:
        raise ValueError(line)
    return tuple(cells[:count])


LAYOUTS = (
    Layout("its table", TABLES, parse_table),
    Layout("the lists of the ISIC challenge 2018", (TRUTH, f"{TRUTH}.csv"), parse_challenge),
)
HAM10000 = Reader(
    name="ham10000",
    title="HAM10000",
    folder="HAM10000",
    kind=STANDARD,
    images={"train": 8_012, "test": 2_003},
    classes={"train": 7, "test": 7},
    source="https://doi.org/10.7910/DVN/DBW86T",
    terms="CC BY-NC",
    read=read_ham10000,
    archives=("HAM10000_images_part_1.zip", "HAM10000_images_part_2.zip", "HAM10000_metadata.csv"),
    other_folders=("skin-cancer-mnist-ham10000", "ISIC2018_Task3", "ISIC2018", "ISIC_2018_Task3", "isic2018_task_3"),
)
