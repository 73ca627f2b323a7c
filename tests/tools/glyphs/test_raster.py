"""Pixels of outlines that can be counted by hand, and where an outline comes to lie."""

import numpy as np
import pytest

from tools.glyphs.raster import SAMPLES, count_samples, place

SQUARE = np.array([[0, 0], [10, 0], [10, 10], [0, 10]], dtype=np.float64)
INNER = np.array([[3, 3], [7, 3], [7, 7], [3, 7]], dtype=np.float64)
TALL = np.array([[0, 0], [10, 0], [10, 40], [0, 40]], dtype=np.float64)
MIDDLE = (0.5, 0.5)


def samples(polygon, pixels):
    """Return a polygon of pixels in samples."""
    return [polygon * SAMPLES * pixels / 10]


def test_whole_pixels_are_full_and_halves_are_half():
    counts = count_samples(samples(SQUARE, 2), 4)
    assert counts.dtype == np.uint8
    assert counts[:2, :2].tolist() == [[16, 16], [16, 16]]
    assert counts.sum() == 64
    assert count_samples(samples(SQUARE, 1.5), 4)[:2, :2].tolist() == [[16, 8], [8, 4]]


@pytest.mark.parametrize("direction", [1, -1])
def test_an_inner_outline_the_other_way_is_a_hole_and_the_same_way_is_none(direction):
    outer, inner = samples(SQUARE, 10)[0], samples(INNER, 10)[0]
    hole = count_samples([outer[::direction], inner[::-direction]], 10)
    assert hole[3:7, 3:7].sum() == 0
    assert hole.sum() == 16 * (100 - 16)
    assert count_samples([outer[::direction], inner[::direction]], 10).sum() == 16 * 100


def test_a_triangle_has_half_of_its_square():
    triangle = np.array([[0, 0], [0, 40], [40, 40]], dtype=np.float64)
    counts = count_samples([triangle], 10)
    assert (counts == np.tril(counts)).all()
    assert counts[9, 0] == 16
    assert counts.sum() == pytest.approx(800, rel=0.05)


def test_what_lies_outside_is_cut_off():
    assert count_samples([samples(SQUARE, 4)[0] - 8], 4).sum() == 16 * 4
    assert count_samples([samples(SQUARE, 2)[0] + 100], 4).sum() == 0


def test_font_units_rise_and_pixels_fall():
    flag = np.array([[0, 0], [4, 0], [4, 30], [20, 30], [20, 40], [0, 40]], dtype=np.float64)  # ink at the top right
    counts = count_samples(place([flag], 0.0, 8.0, 8, MIDDLE), 8)
    assert counts[0].sum() > counts[-1].sum() > 0


def test_the_longer_side_is_as_asked_and_the_rest_is_room():
    for at, left in (((0.0, 0.0), 0), ((1.0, 0.0), 6), (MIDDLE, 3)):
        counts = count_samples(place([TALL], 0.0, 8.0, 8, at), 8)
        assert np.flatnonzero(counts.any(axis=0)).tolist() == [left, left + 1]
        assert counts.any(axis=1).all()
    assert count_samples(place([TALL], 0.0, 8.0, 8, MIDDLE, stretch=True), 8).min() == 16


def test_a_tilt_turns_to_the_left_and_keeps_the_size():
    tilted = count_samples(place([TALL], 20.0, 20.0, 24, MIDDLE), 24).astype(int)
    columns = np.arange(24)
    top, bottom = ((row * columns).sum() / row.sum() for row in (tilted[4], tilted[19]))
    assert top < bottom  # the head of a letter that falls to the left
    assert tilted.sum() / 16 == pytest.approx(
        count_samples(place([TALL], -20.0, 20.0, 24, MIDDLE), 24).sum() / 16, rel=0.02
    )


def test_the_same_counts_from_whatever_point_an_outline_begins():
    wave = np.stack([np.linspace(0, 37, 50), 20 + 9 * np.sin(np.linspace(0, 9, 50))], axis=1)
    outline = np.concatenate([wave, [[37, 1], [0, 1]]])
    first = count_samples([outline], 10)
    for shift in (1, 17, 51):
        assert np.array_equal(first, count_samples([np.roll(outline, shift, axis=0)], 10))
