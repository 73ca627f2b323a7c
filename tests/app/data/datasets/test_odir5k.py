"""ODIR-5K: its spreadsheet, one label for an eye, and patients that are never parted."""

import sys

import numpy as np
import pytest
from dataset_trees import hold_to_counts, hold_to_files, hold_to_places, image, labeled, move, refusal, rows_of, text
from openpyxl import Workbook

from shadowmetric.app.data.datasets import odir5k
from shadowmetric.app.data.datasets.odir5k import CLASSES, ODIR5K, meanings, parse_table
from shadowmetric.errors import DataMistake

SIDES = ("Left-Fundus", "Right-Fundus", "Left-Diagnostic Keywords", "Right-Diagnostic Keywords")
HEADER = ("ID", "Patient Age", "Patient Sex", *SIDES, *"NDGCAHMO")
WORDS = {
    "N": "normal fundus",
    "D": "mild nonproliferative retinopathy",
    "G": "suspected glaucoma",
    "C": "cataract，lens dust",
    "A": "wet age-related macular degeneration",
    "H": "hypertensive retinopathy",
    "M": "pathological myopia",
    "O": "drusen，laser spot",
}
SILENT_OR_SEVERAL = ("low image quality", "glaucoma，drusen")
PATIENTS = [  # every class with four patients; the other eye is healthy, silent or has several classes
    (
        str(10 * place + number),
        words,
        ("normal fundus", SILENT_OR_SEVERAL[place % 2], "cataract，drusen", words)[number],
    )
    for place, words in enumerate(WORDS.values())
    for number in range(4)
]


def table(folder, rows, header=HEADER):
    book = Workbook()
    assert book.active is not None
    for row in (header, *rows):
        book.active.append(row)
    folder.mkdir(parents=True, exist_ok=True)
    book.save(folder / "data.xlsx")


def cells(patient, left, right):
    return (patient, 60, "Male", f"{patient}_left.jpg", f"{patient}_right.jpg", left, right, *[0] * 8)


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "ODIR-5K"
    table(folder, [cells(*patient) for patient in PATIENTS])
    for patient, _, _ in PATIENTS:
        for side in ("left", "right"):
            image(folder / "Training Images" / f"{patient}_{side}.jpg")
    return tmp_path


@pytest.mark.parametrize(
    ("keywords", "wanted"),
    [
        ("normal fundus", "N"),
        ("lens dust，normal fundus", "N"),
        ("Normal Fundus, lens dust", "N"),
        ("moderate non proliferative retinopathy", "D"),
        ("severe nonproliferative retinopathy", "D"),
        ("suspected moderate non proliferative retinopathy", "D"),
        ("proliferative diabetic retinopathy，mild nonproliferative retinopathy", "D"),
        ("suspicious diabetic retinopathy", "D"),
        ("suspected glaucoma", "G"),
        ("suspected cataract", "C"),
        ("dry age-related macular degeneration", "A"),
        ("age-related macular degeneration", "A"),
        ("hypertensive retinopathy", "H"),
        ("pathological myopia", "M"),
        ("myopic maculopathy", "M"),
        ("myopia retinopathy", "M"),
        ("maculopathy", "O"),
        ("central serous chorioretinopathy", "O"),
        ("macular epiretinal membrane，vitreous degeneration", "O"),
        ("laser spot，moderate non proliferative retinopathy", "DO"),
        ("hypertensive retinopathy，age-related macular degeneration", "AH"),
        ("low image quality", ""),
        ("no fundus image", ""),
        ("anterior segment image", ""),
        ("image offset，optic disk photographically invisible", ""),
    ],
)
def test_what_keywords_mean(keywords, wanted):
    assert meanings(keywords) == set(wanted)


def test_an_eye_with_one_class_is_kept_and_patients_are_not_parted(root):
    dataset = ODIR5K.read(root, True)
    parts = rows_of(dataset)
    named = {words: CLASSES[letter] for letter, words in WORDS.items()}
    rows = [(f"Training Images/{patient}_left.jpg", named[words]) for patient, words, _ in PATIENTS]
    rows += [(f"Training Images/{patient}_right.jpg", named[words]) for patient, _, words in PATIENTS if words in named]
    assert sorted(parts["train"] + parts["test"]) == sorted(rows)
    for split in (dataset.train, dataset.test):
        names = [split.images.name(number) for number in range(len(split))]
        assert [f"Training Images/{patient}" for patient in split.groups] == [name.rpartition("_")[0] for name in names]
    assert not set(dataset.train.groups) & set(dataset.test.groups)
    assert dataset.kind == "standard"
    assert dataset.mirrors
    assert dataset.notes[0] == (
        "One label for an eye, by its keywords: of 64 eyes 12 have several classes and 4 none; they are left out."
    )


def test_a_fifth_of_each_class_tests(tmp_path):
    words = list(WORDS.values())
    table(tmp_path / "ODIR-5K", [cells(number, words[number % 8], words[number % 8]) for number in range(800)])
    dataset = parse_table(ODIR5K, tmp_path)
    train, test = (np.bincount(split.labels) for split in (dataset.train, dataset.test))
    assert train.tolist() == [160] * 8
    assert test.tolist() == [40] * 8
    assert not set(dataset.train.groups) & set(dataset.test.groups)


def test_the_official_total():
    assert sum(ODIR5K.images.values()) == 7_000 - 501 - 30


def test_columns_are_known_by_name_and_empty_rows_passed_over(root):
    before = rows_of(ODIR5K.read(root, True))
    rows = [cells(*patient)[::-1] for patient in PATIENTS]
    table(root / "ODIR-5K", [*rows[:3], (None,) * 15, *rows[3:], (None, None)], HEADER[::-1])
    assert rows_of(ODIR5K.read(root, True)) == before


def test_the_archive_may_be_unpacked_one_folder_deeper(root):
    before = rows_of(ODIR5K.read(root, True))
    (root / "ODIR-5K").rename(root / "inner")
    (root / "ODIR-5K").mkdir()
    (root / "inner").rename(root / "ODIR-5K" / "ODIR-5K")
    dataset = ODIR5K.read(root, True)
    assert rows_of(dataset) == before
    assert dataset.test.images.read(0).shape == (3, 3, 4)


def test_counts(root, monkeypatch):
    hold_to_counts(monkeypatch, odir5k, "ODIR5K", root)


def test_files(root):
    hold_to_files(ODIR5K, root, "Training Images/11_left.jpg")


def test_a_table_that_is_missing_or_none(root):
    path = root / "ODIR-5K" / "data.xlsx"
    text(path, "<html>not found</html>")
    assert f"{path} cannot be read as a spreadsheet" in refusal(ODIR5K, root)
    table(root / "ODIR-5K", [], HEADER[1:])
    assert f"{path}, row 1, is ('Patient Age', " in refusal(ODIR5K, root)
    table(root / "ODIR-5K", [])
    assert f"{path} has no row; expected a patient's number" in refusal(ODIR5K, root)
    path.unlink()
    assert "odir5k: ODIR-5K/data.xlsx is not there" in refusal(ODIR5K, root)


@pytest.mark.parametrize(
    "row", [cells("x", "cataract", "cataract"), cells("7", None, "cataract"), (7, 60, "Male", 7, 8, "drusen", "drusen")]
)
def test_a_row_that_is_wrong(root, row):
    path = root / "ODIR-5K" / "data.xlsx"
    table(root / "ODIR-5K", [cells("3", "cataract", "drusen"), row])
    sentence = refusal(ODIR5K, root, True)
    assert sentence.startswith(f"{path}, row 3, is (")
    assert sentence.endswith("expected a patient's number, and a file and keywords for each eye.")


def test_without_openpyxl_the_extra_is_named(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(DataMistake, match=r"run `pip install 'shadowmetric\[datasets\]'`"):
        ODIR5K.read(root, False)


def test_places(root):
    hold_to_places(ODIR5K, root)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("ODIR-5K_Training_Annotations(Updated)_V2.xlsx", "ODIR-5K_Training_Images/ODIR-5K_Training_Dataset"),
        ("data.xlsx", "ODIR-5K_Training_Images"),
        ("Training Set/Annotation/training annotation (English).xlsx", "Training Set/Images"),
    ],
)
def test_where_people_have_the_table_and_the_images(root, name, place):
    before = labeled(ODIR5K.read(root, True))
    move(root / "ODIR-5K", "data.xlsx", name)
    move(root / "ODIR-5K", "Training Images", place)
    dataset = ODIR5K.read(root, True)
    assert labeled(dataset) == before
    assert dataset.train.images.read(0).shape == (3, 3, 4)
