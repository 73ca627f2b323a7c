"""Sizes by hand, pixels against PIL, and what is chosen for images that nobody said anything about."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from shadowmetric.app.data.images import ArrayImages
from shadowmetric.app.data.preprocessing import LOOKED_AT, Preprocessing, middle, preprocessing_for, with_channels
from shadowmetric.errors import BrokenImage


def noise(height, width, channels=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, (channels, height, width), generator=generator, dtype=torch.uint8)


class Mixed:
    """Images of the sides given, in a row; None is a broken one."""

    def __init__(self, *sides, channels=3):
        self.sides, self.channels, self.read_ones = sides, channels, []

    def __len__(self):
        return len(self.sides)

    def read(self, number):
        self.read_ones.append(number)
        if number < 0 or self.sides[number] is None:
            raise BrokenImage(f"image {number} is broken.")
        height, width = self.sides[number]
        return torch.zeros(self.channels, height, width, dtype=torch.uint8)

    def name(self, number):
        return f"image {number}"

    def take(self, numbers):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("height", "width", "resize", "wanted"),
    [
        (500, 400, 256, (320, 256)),  # portrait
        (400, 500, 256, (256, 320)),  # landscape
        (333, 500, 256, (256, 384)),  # 384.38
        (500, 335, 256, (382, 256)),  # 382.09
        (97, 97, 32, (32, 32)),
        (31, 47, 64, (64, 97)),  # enlarged: 97.03
        (1, 3, 5, (5, 15)),
        (100, 101, 7, (7, 7)),  # 7.07
        (256, 999, 256, (256, 999)),  # as it is
    ],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_the_short_side_becomes_resize_and_the_long_one_keeps_the_proportion(height, width, resize, wanted, channels):
    shape = Preprocessing(size=min(5, resize), resize=resize, channels=channels)
    found = shape.resize_short_side(noise(height, width, channels))
    assert found.shape == (channels, *wanted)
    assert found.dtype == torch.uint8
    assert shape(noise(height, width, channels)).shape == (channels, shape.size, shape.size)


@given(st.integers(1, 70), st.integers(1, 70), st.integers(2, 40), st.integers(0, 39), st.sampled_from([1, 3]))
def test_any_image_becomes_the_square(height, width, resize, less, channels):
    shape = Preprocessing(size=max(1, resize - less), resize=resize, channels=channels)
    resized = shape.resize_short_side(noise(height, width))
    assert min(resized.shape[1:]) == resize
    assert (resized.shape[1] < resized.shape[2]) <= (height < width)
    found = shape(noise(height, width))
    assert found.shape == (channels, shape.size, shape.size)
    assert found.dtype == torch.uint8


def test_an_image_that_fits_is_not_touched():
    image = noise(32, 48)
    assert Preprocessing(28, 32, 3).resize_short_side(image) is image


@pytest.mark.parametrize(("height", "width", "resize"), [(90, 61, 24), (61, 90, 24), (20, 31, 40), (64, 64, 32)])
def test_the_pixels_are_those_of_pil(height, width, resize):
    """Antialiased and bilinear: the same filter in another implementation, which rounds once more."""
    smooth = torch.nn.functional.avg_pool2d(noise(height + 4, width + 4).float(), 5, 1).byte()
    found = Preprocessing(resize, resize, 3).resize_short_side(smooth)
    image = Image.fromarray(smooth.permute(1, 2, 0).numpy())
    wanted = np.asarray(image.resize((found.shape[2], found.shape[1]), Image.Resampling.BILINEAR))
    assert np.abs(found.permute(1, 2, 0).numpy().astype(int) - wanted.astype(int)).max() <= 1


@pytest.mark.parametrize(
    ("height", "width", "size", "top", "left"), [(4, 4, 2, 1, 1), (5, 8, 2, 1, 3), (5, 4, 4, 0, 0), (7, 9, 3, 2, 3)]
)
def test_the_middle(height, width, size, top, left):
    image = torch.arange(height * width, dtype=torch.uint8).view(1, height, width)
    found = middle(image, size)
    assert found.shape == (1, size, size)
    assert int(found[0, 0, 0]) == top * width + left
    assert int(found[0, -1, -1]) == (top + size - 1) * width + left + size - 1


def test_gray_and_color():
    color = torch.tensor([[255, 0, 0, 255, 10], [0, 255, 0, 255, 20], [0, 0, 255, 255, 30]], dtype=torch.uint8)
    gray = with_channels(color[:, None], 1)
    assert gray.dtype == torch.uint8
    assert gray.tolist() == [[[76, 150, 29, 255, 18]]]  # 2.99 + 11.74 + 3.42 = 18.15
    back = with_channels(gray, 3)
    assert back.shape == (3, 1, 5)
    assert torch.equal(back, gray.repeat(3, 1, 1))
    for image in (color[:, None], gray):
        assert with_channels(image, len(image)) is image
    assert Preprocessing(4, 4, 1)(noise(9, 9)).shape == (1, 4, 4)
    assert Preprocessing(4, 4, 3)(noise(9, 9, 1)).shape == (3, 4, 4)


@pytest.mark.parametrize(
    ("sides", "asked", "wanted"),
    [
        ([(28, 28)], {}, (28, 28)),
        ([(128, 300)], {}, (128, 128)),
        ([(129, 300)], {}, (224, 256)),
        ([(600, 500)], {}, (224, 256)),
        ([(32, 90), (40, 33), (500, 500)], {}, (33, 33)),  # the one in the middle
        ([(32, 32), (35, 35)], {}, (33, 33)),  # 33.5
        ([(32, 32)], {"size": 24}, (24, 24)),
        ([(32, 32)], {"resize": 40}, (32, 40)),
        ([(32, 32)], {"resize": 24}, (24, 24)),
        ([(32, 32)], {"size": 64}, (64, 64)),
        ([(32, 32)], {"size": 28, "resize": 36}, (28, 36)),
        ([(500, 400)], {"size": 112}, (112, 128)),
        ([(500, 400)], {"size": 96}, (96, 110)),  # 109.7
        ([(500, 400)], {"resize": 300}, (224, 300)),
        ([(500, 400)], {"resize": 128}, (128, 128)),
        ([(500, 400)], {"size": 64, "resize": 72}, (64, 72)),
    ],
)
def test_what_suits_the_images(sides, asked, wanted):
    for channels in (1, 3):
        found = preprocessing_for(Mixed(*sides, channels=channels), **asked)
        assert found == Preprocessing(*wanted, channels)


def test_broken_images_are_passed_over_while_looking():
    assert preprocessing_for(Mixed(None, None, (32, 40), None, channels=1)) == Preprocessing(32, 32, 1)
    with pytest.raises(BrokenImage, match=r"image 2 is broken\."):
        preprocessing_for(Mixed(None, None, None))


@pytest.mark.parametrize("images", [Mixed(), ArrayImages(torch.zeros(0, 1, 8, 8, dtype=torch.uint8))])
def test_no_images(images):
    with pytest.raises(BrokenImage, match=r"there are no images\."):
        preprocessing_for(images)


@pytest.mark.parametrize("count", [1, 2, 7, 30, 31, 32, 1000])
def test_a_few_images_from_the_first_to_the_last_are_looked_at(count):
    images = Mixed(*[(20, 20)] * count)
    preprocessing_for(images)
    looked = images.read_ones
    assert len(looked) == len(set(looked)) == min(count, LOOKED_AT)
    assert (looked[0], looked[-1]) == (0, count - 1)
    assert max(np.diff(looked), default=1) <= -(-count // (LOOKED_AT - 1))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ((0, 5, 3), "size is 0 and resize 5; resize must be at least size"),
        ((6, 5, 3), "size is 6 and resize 5"),
        ((5, 5, 2), r"channels is 2; it must be 1 \(gray\) or 3 \(color\)"),
    ],
)
def test_what_is_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        Preprocessing(*settings)
    if settings[2] == 3:
        with pytest.raises(ValueError, match=sentence):
            preprocessing_for(Mixed((9, 9)), *settings[:2])
