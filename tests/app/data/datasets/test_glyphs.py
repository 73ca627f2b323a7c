"""The embedded glyphs: whole, split by the stated rule, no two images alike, and small in the wheel."""

from importlib.resources import files
from pathlib import Path

import numpy as np
import torch

from shadowmetric.app.data.datasets.glyphs import GLYPHS

NOWHERE = Path("there is no such folder")
FILE = files("shadowmetric.app.data.datasets") / "glyphs.npz"


def test_counts_shapes_and_what_is_said():
    glyphs = GLYPHS.read(NOWHERE, False)
    assert (len(glyphs.train), len(glyphs.test), len(glyphs.classes)) == (2940, 2931, 434)
    assert glyphs.train.images.read(0).shape == (1, 28, 28)
    assert torch.unique(glyphs.test.images.pixels).tolist() == [round(value * 255 / 16) for value in range(17)]
    assert not glyphs.mirrors
    assert "every second character trains" in glyphs.notes[0]


def test_classes_are_disjoint_and_every_second_character_trains():
    glyphs = GLYPHS.read(NOWHERE, False)
    assert glyphs.kind == "zero_shot"
    assert np.unique(glyphs.train.labels).tolist() == list(range(0, 434, 2))
    assert np.unique(glyphs.test.labels).tolist() == list(range(1, 434, 2))


def test_an_image_is_named_by_its_character_and_face_whatever_was_taken():
    glyphs = GLYPHS.read(NOWHERE, False)
    some = glyphs.test.take(np.array([17, 3]))
    for place, number in enumerate((17, 3)):
        assert some.images.name(place) == glyphs.test.images.name(number)
        assert some.images.name(place).startswith(f"{glyphs.classes[some.labels[place]]} in ")
    names = [split.images.name(number) for split in (glyphs.train, glyphs.test) for number in range(len(split))]
    assert len(set(names)) == 5871  # a character stands in a face once
    assert len({name.partition(" in ")[2] for name in names}) == 16


def test_twins_of_other_scripts_are_not_there_and_all_are_letters_digits_or_signs():
    classes = set(GLYPHS.read(NOWHERE, False).classes)
    for twins in ("AΑА", "OΟО0oοо", "lI|ІӀ1", "cCсС", "sSѕЅ", "BΒВ", "HΗН", "PΡР", "TΤТ", "xX×хХ"):
        assert len(classes & set(twins)) <= 1, twins
    assert {"A", "R", "a", "5", "Ω", "Ж", "Է", "ლ", "€", "√"} <= classes


def test_no_two_images_are_the_same_and_all_lie_clear_of_the_edge():
    glyphs = GLYPHS.read(NOWHERE, False)
    pixels = torch.cat([glyphs.train.images.pixels, glyphs.test.images.pixels])[:, 0]
    assert len(torch.unique(pixels.flatten(1), dim=0)) == len(pixels)
    assert pixels[:, [0, -1], :].max() == pixels[:, :, [0, -1]].max() == 0
    ink = pixels.float().mean(dim=(1, 2)) / 255
    assert 0.01 < ink.min() < ink.max() < 0.5


def test_the_file_is_small_and_holds_plain_arrays():
    assert len(FILE.read_bytes()) < 2_000_000
    with FILE.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        assert {name: arrays[name].dtype.kind for name in arrays} == {
            "ink": "u", "characters": "u", "faces": "u", "face_names": "U",
        }  # fmt: skip
