"""HAM10000: 10,015 photographs of 7,470 pigmented skin lesions, of seven diagnoses.

    HAM10000/HAM10000_metadata.csv    lesion_id,image_id,dx,... below a line that says so
    HAM10000/HAM10000_images/ISIC_0024306.jpg ...
        or the two official folders, HAM10000_images_part_1 and HAM10000_images_part_2

Split, ours, since there is no official one with labels: `part_images(labels, 0.2, seed=0, groups=lesions)`, the same
diagnoses on both sides and never one lesion. That is 8,012 images of 6,000 lesions to train, 2,003 of 1,470 to test.

Tschandl, Rosendahl and Kittler, The HAM10000 dataset, Scientific Data 5, 2018. From the Harvard Dataverse, two archives
and the table; CC BY-NC.
"""

import csv
from pathlib import Path

import numpy as np

from shadowmetric.app.data.dataset import STANDARD, Dataset, Reader, check_counts
from shadowmetric.app.data.datasets.lists import in_fifths, list_images, names_in, on_disk, read_list

FOLDERS = ("HAM10000_images", "HAM10000_images_part_1", "HAM10000_images_part_2")
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
    return check_counts(HAM10000, on_disk(HAM10000, parse_ham10000(root), allow_partial), allow_partial)


def parse_ham10000(root: Path) -> Dataset:
    """Return what the table names, whether the files are there or not."""
    expected = f"`lesion_id,image_id,dx,...` with dx one of {', '.join(DIAGNOSES)}"
    rows = read_list(HAM10000, root, "HAM10000_metadata.csv", _row, expected, skip=1)
    folder = root / HAM10000.folder
    inside = {name: part for part in FOLDERS for name in names_in(folder / part)}
    images = [(f"{inside.get(name, FOLDERS[0])}/{name}", diagnosis) for _, name, diagnosis in rows]
    lesions = np.unique([lesion for lesion, _, _ in rows], return_inverse=True)[1]
    whole = list_images(folder, images, DIAGNOSES, lesions)
    return in_fifths(HAM10000, whole, DIAGNOSES)


def _row(line: str) -> tuple[str, str, str]:
    """Return the lesion, the name of the file and the diagnosis."""
    lesion, image, diagnosis, *_ = next(csv.reader([line]))
    if not (lesion and image and diagnosis in DIAGNOSES):
        raise ValueError(line)
    return lesion, f"{image}.jpg", diagnosis


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
)
