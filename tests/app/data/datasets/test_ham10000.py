"""HAM10000: its table, its folders, and lesions that are never parted."""

import random

import numpy as np
import pytest
from dataset_trees import (
    change_line,
    hold_to_counts,
    hold_to_files,
    hold_to_places,
    hold_to_text,
    image,
    labeled,
    move,
    refusal,
    rows_of,
    text,
)

from shadowmetric.app.data.datasets import ham10000
from shadowmetric.app.data.datasets.ham10000 import DIAGNOSES, HAM10000, parse_table

HEADER = "lesion_id,image_id,dx,dx_type,age,sex,localization"
ROWS = [
    (f"HAM_{5 * place + lesion:07}", f"ISIC_{15 * place + 3 * lesion + photo:07}", diagnosis)
    for place, diagnosis in enumerate(DIAGNOSES)
    for lesion in range(5)
    for photo in range(1 + lesion % 3)
]


def table(root, rows):
    lines = [f"{lesion},{image},{diagnosis},histo,,unknown,back" for lesion, image, diagnosis in rows]
    text(root / "HAM10000" / "HAM10000_metadata.csv", HEADER, *lines)


@pytest.fixture
def root(tmp_path):
    table(tmp_path, ROWS)
    for _, name, _ in ROWS:
        image(tmp_path / "HAM10000" / "HAM10000_images" / f"{name}.jpg")
    return tmp_path


def test_every_image_has_its_diagnosis_and_lesions_are_not_parted(root):
    dataset = HAM10000.read(root, True)
    parts = rows_of(dataset)
    wanted = [(f"HAM10000_images/{image}.jpg", DIAGNOSES[diagnosis]) for _, image, diagnosis in ROWS]
    assert sorted(parts["train"] + parts["test"]) == sorted(wanted)
    lesion_of = {f"HAM10000_images/{image}.jpg": lesion for lesion, image, _ in ROWS}
    assert not {lesion_of[path] for path, _ in parts["train"]} & {lesion_of[path] for path, _ in parts["test"]}
    assert set(dataset.train.labels) == set(dataset.test.labels) == set(range(7))
    assert dataset.kind == "standard"
    for split in (dataset.train, dataset.test):
        paths = [split.images.name(number) for number in range(len(split))]
        pairs = set(zip([lesion_of[path] for path in paths], split.groups.tolist(), strict=True))
        assert len(pairs) == len({lesion for lesion, _ in pairs}) == len({group for _, group in pairs})
    assert not set(dataset.train.groups) & set(dataset.test.groups)


def test_a_fifth_of_each_diagnosis_tests(tmp_path):
    rows = [
        (f"HAM_{lesion}", f"ISIC_{lesion}_{photo}", list(DIAGNOSES)[lesion % 7])
        for lesion in range(700)
        for photo in range(1 + lesion % 2)
    ]
    table(tmp_path, rows)
    dataset = parse_table(HAM10000, tmp_path)
    train, test = (np.bincount(split.labels) for split in (dataset.train, dataset.test))
    assert test / (train + test) == pytest.approx(0.2, abs=0.01)
    assert not set(dataset.train.groups) & set(dataset.test.groups)


def test_the_order_of_the_table_does_not_matter(root):
    before = rows_of(HAM10000.read(root, True))
    table(root, random.Random(0).sample(ROWS, len(ROWS)))
    after = rows_of(HAM10000.read(root, True))
    assert {part: sorted(rows) for part, rows in after.items()} == {part: sorted(rows) for part, rows in before.items()}
    assert after != before


def test_the_official_folders(root):
    before = rows_of(HAM10000.read(root, True))
    folder = root / "HAM10000"
    (folder / "HAM10000_images").rename(folder / "HAM10000_images_part_1")
    (folder / "HAM10000_images_part_2").mkdir()
    moved = [f"{image}.jpg" for _, image, _ in ROWS[::2]]
    for name in moved:
        (folder / "HAM10000_images_part_1" / name).rename(folder / "HAM10000_images_part_2" / name)
    after = rows_of(HAM10000.read(root, True))
    for part, rows in after.items():
        for (path, diagnosis), (old_path, old_diagnosis) in zip(rows, before[part], strict=True):
            name = old_path.split("/")[1]
            assert path == f"HAM10000_images_part_{2 if name in moved else 1}/{name}"
            assert diagnosis == old_diagnosis


def test_the_official_total():
    assert sum(HAM10000.images.values()) == 10_015


def test_counts(root, monkeypatch):
    hold_to_counts(monkeypatch, ham10000, "HAM10000", root)


def test_files(root):
    hold_to_files(HAM10000, root, f"HAM10000_images/{ROWS[3][1]}.jpg")


def test_lists(root):
    hold_to_text(HAM10000, root, "HAM10000_metadata.csv")


@pytest.mark.parametrize(
    "line", ["HAM_0000001,ISIC_0000001", "HAM_0000001,ISIC_0000001,wart,,,,", ",ISIC_0000001,nv", "HAM_1,,nv"]
)
def test_a_line_that_is_wrong(root, line):
    path = root / "HAM10000" / "HAM10000_metadata.csv"
    change_line(path, 7, line)
    sentence = refusal(HAM10000, root, True)
    assert sentence.startswith(f"{path}, line 7, is {line!r}; expected `lesion_id,image_id,dx,...`")
    assert "akiec, bcc, bkl, df, mel, nv, vasc" in sentence


def test_a_line_without_end(root):
    path = root / "HAM10000" / "HAM10000_metadata.csv"
    change_line(path, 7, "HAM_0000001," + "x" * 200_000)
    assert refusal(HAM10000, root, True).startswith(f"{path}, line 7, is 'HAM_0000001,xxx")


def test_places(root):
    hold_to_places(HAM10000, root)


@pytest.mark.parametrize(("name", "between"), [("HAM10000_metadata", ","), ("HAM10000_metadata.tab", "\t")])
def test_the_table_as_the_dataverse_gives_it(root, name, between):
    before = rows_of(HAM10000.read(root, True))
    path = root / "HAM10000" / "HAM10000_metadata.csv"
    path.write_text(path.read_text().replace(",", between))
    path.rename(path.with_name(name))
    assert rows_of(HAM10000.read(root, True)) == before


@pytest.mark.parametrize(
    "place",
    [
        "ham10000_images_part_1",
        "HAM10000_images_part_1/HAM10000_images_part_1",
        "all_images",
        "train/nv",
        ".",
        "images",
    ],
)
def test_where_people_have_the_images(root, place):
    before = labeled(HAM10000.read(root, True))
    folder = root / "HAM10000"
    (folder / "HAM10000_images").rename(folder / "pool")
    (folder / place).mkdir(parents=True, exist_ok=True)
    for path in (folder / "pool").iterdir():
        path.rename(folder / place / path.name)
    assert labeled(HAM10000.read(root, True)) == before


def test_copies_beside_the_official_folder_are_not_read(root):
    before = rows_of(HAM10000.read(root, True))
    for _, name, _ in ROWS:
        image(root / "HAM10000" / "augmented" / f"{name}.jpg")
    assert rows_of(HAM10000.read(root, True)) == before


@pytest.mark.parametrize("inside", [True, False])
def test_the_lists_of_the_challenge_give_the_same_parts(root, inside):
    before = labeled(HAM10000.read(root, True))
    folder, columns = root / "HAM10000", ("mel", "nv", "bcc", "akiec", "bkl", "df", "vasc")
    truth, lesions = "ISIC2018_Task3_Training_GroundTruth", "ISIC2018_Task3_Training_LesionGroupings"
    marks = [
        ",".join([name, *("1.0" if one == known else "0.0" for one in columns)])
        for _, name, known in sorted(ROWS, key=lambda row: row[1])
    ]
    text(folder / (f"{truth}/{truth}.csv" if inside else f"{truth}.csv"), "image,MEL,NV,BCC,AKIEC,BKL,DF,VASC", *marks)
    rows = [f"{name},{lesion},histopathology" for lesion, name, _ in ROWS]
    text(folder / f"{lesions}.csv", "image,lesion_id,diagnosis_confirm_type", *rows)
    (folder / "HAM10000_metadata.csv").unlink()
    move(folder, "HAM10000_images", "ISIC2018_Task3_Training_Input")
    dataset = HAM10000.read(root, True)
    assert labeled(dataset) == before
    assert "Read from HAM10000: the lists of the ISIC challenge 2018." in dataset.notes
