"""What images are taken for: ink on paper is a drawing; color, or no ground, makes a photo."""

import numpy as np
import pytest
import torch
from PIL import Image

from shadowmetric.app.data.datasets.digits import DIGITS
from shadowmetric.app.data.image_kind import COLORLESS, GROUND, Look, look_at, look_at_one
from shadowmetric.app.data.images import ArrayImages, FileImages


def noise(channels, count=9, size=16, least=0, most=256):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(least, most, (count, channels, size, size), generator=generator, dtype=torch.uint8)


def on_ground(images, share, level=255):
    """The images with so much of them under one level."""
    found = images.clone()
    found[..., : round(share * images.shape[-2]), :] = level
    return found


@pytest.mark.parametrize(
    ("images", "kind"),
    [
        (noise(1), "photo"),
        (noise(3), "photo"),
        (on_ground(noise(1), 0.75), "drawing"),
        (on_ground(noise(1), 0.75, 0), "drawing"),
        (on_ground(noise(1).expand(-1, 3, -1, -1), 0.75), "drawing"),  # gray in three channels
        (on_ground(noise(3), 0.75), "photo"),  # a product on a white ground
        (noise(1, least=240, most=256), "drawing"),  # paper with a scanner's noise, and nothing on it
    ],
)
def test_the_rule(images, kind):
    assert look_at(ArrayImages(images)).kind == kind


def test_the_bounds_are_where_they_are_said_to_be():
    assert Look(COLORLESS, GROUND).kind == "drawing"
    assert Look(COLORLESS + 0.01, GROUND).kind == "photo"
    assert Look(COLORLESS, GROUND - 0.01).kind == "photo"


def test_one_image_is_measured_as_it_is_said():
    image = torch.zeros(3, 4, 4, dtype=torch.uint8)
    image[0], image[1] = 30, 10
    assert look_at_one(image) == (30.0, 1.0)
    image = torch.full((1, 4, 4), 16, dtype=torch.uint8)
    image[0, 0, :3], image[0, 3, 3] = 15, 31  # another level of sixteen, and the same
    assert look_at_one(image) == (0.0, 13 / 16)


def test_a_few_odd_images_do_not_decide():
    images = on_ground(noise(3, 9), 0.75)
    images[:5] = on_ground(noise(1, 5), 0.75).expand(-1, 3, -1, -1)
    assert look_at(ArrayImages(images)).kind == "drawing"
    assert look_at(ArrayImages(images[1:])).kind == "photo"


def test_files_that_cannot_be_read_are_passed_over(tmp_path):
    Image.fromarray(np.full((8, 8), 255, np.uint8)).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"no image")
    assert look_at(FileImages(tmp_path, ["a.png", "b.png"])).kind == "drawing"
    assert look_at(FileImages(tmp_path, ["b.png"])).kind == "photo"


def test_digits_are_drawings_and_the_sentence_says_why(tmp_path):
    look = look_at(DIGITS.read(tmp_path, False).train.images)
    assert look.kind == "drawing"
    assert look.sentence().startswith("The images are taken for drawings: no color, one level covers ")
