"""Random changes: every pixel has a place it came from, and a seed decides all of it."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shadowmetric.data.augmentation import KINDS, NONE, Augmentation, random_part, shifted
from shadowmetric.data.preprocessing import Preprocessing, middle


def numbered(height, width, channels=1, count=1):
    """Pictures in which no pixel has the value of another, nor 0; more than a byte, which shifting does not mind."""
    values = torch.arange(1, count * channels * height * width + 1, dtype=torch.int32)
    return values.view(count, channels, height, width)


def noise(count, height, width, channels=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, (count, channels, height, width), generator=generator, dtype=torch.uint8)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def place(square, framed):
    """Where the square was cut from its picture; fails if it was not."""
    (channels, size, _), (height, width) = square.shape, framed.shape[-2:]
    found = [
        (top, left)
        for top in range(height - size + 1)
        for left in range(width - size + 1)
        if torch.equal(framed[:, top : top + size, left : left + size], square)
    ]
    assert len(found) == 1, (channels, found)
    return found[0]


def framed_by_hand(picture, size):
    """The picture in black of an eighth of the size, unless it is larger than the square on every side."""
    channels, height, width = picture.shape
    rim = size // 8 if min(height, width) <= size else 0
    frame = torch.zeros(channels, height + 2 * rim, width + 2 * rim, dtype=picture.dtype)
    frame[:, rim : rim + height, rim : rim + width] = picture
    return frame


sides = st.tuples(st.integers(1, 20), st.integers(0, 8), st.integers(0, 8))


@given(sides, st.sampled_from([1, 3]), st.integers(1, 4), st.integers(0, 2**62), st.booleans())
def test_a_shifted_square_is_cut_from_the_framed_picture(side, channels, count, seed, as_list):
    size, higher, wider = side
    pictures = numbered(size + higher, size + wider, channels, count)
    found = shifted(list(pictures) if as_list else pictures, size, seeded(seed))
    assert found.shape == (count, channels, size, size)
    assert found.dtype == pictures.dtype
    for square, picture in zip(found, pictures, strict=True):
        place(square, framed_by_hand(picture, size))


@pytest.mark.parametrize(("height", "width", "places"), [(16, 16, 25), (16, 18, 35), (17, 17, 4), (18, 20, 15)])
def test_every_place_is_reached_and_about_as_often(height, width, places):
    """16 with a rim of 2 on each side: 5 × 5 places; larger pictures: as many as their margin has."""
    pictures = numbered(height, width).expand(40 * places, -1, -1, -1)
    found = shifted(pictures, 16, seeded(0))
    counts = found[:, 0, 8, 8].unique(return_counts=True)[1]  # what stands in the middle tells the place
    assert len(counts) == places
    assert counts.min() > 15
    assert counts.max() < 75


@given(st.integers(0, 2**62), st.integers(1, 5))
def test_a_list_draws_picture_by_picture_and_a_tensor_at_once(seed, count):
    """So both are cuts of the same pictures, but only one picture alone is cut alike."""
    pictures = noise(count, 20, 24)
    one_by_one, random = [], seeded(seed)
    for picture in pictures:
        one_by_one.append(shifted(picture[None], 16, random))
    assert torch.equal(shifted(list(pictures), 16, seeded(seed)), torch.cat(one_by_one))
    if count == 1:
        assert torch.equal(shifted(pictures, 16, seeded(seed)), one_by_one[0])


def test_pictures_of_different_sizes_are_shifted_too():
    pictures = [numbered(16, 16)[0], numbered(20, 17)[0], numbered(16, 30)[0]]
    for square, picture in zip(shifted(pictures, 16, seeded(3)), pictures, strict=True):
        place(square, framed_by_hand(picture, 16))


@pytest.mark.parametrize("kind", ["shift", "crop"])
@pytest.mark.parametrize("as_list", [False, True])
def test_the_mirror_turns_about_every_second_square_left_to_right(kind, as_list):
    pictures = noise(800, 12, 12)
    pictures = list(pictures) if as_list else pictures
    shape = Preprocessing(12, 12, 3)
    plain = Augmentation(kind, mirror=False)(pictures, shape, 5)
    mirrored = Augmentation(kind, mirror=True)(pictures, shape, 5)
    same = (mirrored == plain).flatten(1).all(1)
    turned = (mirrored == plain.flip(-1)).flatten(1).all(1)
    assert (same ^ turned).all()
    assert 350 < int(turned.sum()) < 450


@pytest.mark.parametrize("mirror", [False, True])
def test_none_is_the_middle_and_draws_nothing(mirror):
    pictures = noise(4, 20, 27)
    shape = Preprocessing(16, 20, 3)
    for given_as in (pictures, list(pictures)):
        found = Augmentation("none", mirror)(given_as, shape, 1)
        assert torch.equal(found, middle(pictures, 16))
    assert torch.equal(NONE(pictures, shape, 2), middle(pictures, 16))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("sizes", [[(16, 16)] * 3, [(16, 23)] * 3, [(31, 16)] * 3, [(16, 16), (16, 40), (33, 16)]])
def test_shape_and_type_of_every_kind(kind, channels, sizes):
    pictures = [noise(1, *side, channels)[0] for side in sizes]
    shape = Preprocessing(13, 16, channels)
    given_as = [pictures, tuple(pictures)] + ([torch.stack(pictures)] if len(set(sizes)) == 1 else [])
    for some in given_as:
        found = Augmentation(kind, mirror=True)(some, shape, 0)
        assert found.shape == (3, channels, 13, 13)
        assert found.dtype == torch.uint8


@pytest.mark.parametrize("kind", ["shift", "crop"])
@pytest.mark.parametrize("as_list", [False, True])
def test_the_seed_alone_decides_and_the_pictures_stay_as_they_are(kind, as_list):
    pictures = noise(6, 20, 20)
    before = pictures.clone()
    change, shape = Augmentation(kind, mirror=True), Preprocessing(16, 20, 3)

    def changed(seed):
        return change(list(pictures) if as_list else pictures, shape, seed)

    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = changed(2**63 - 1)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert torch.equal(changed(2**63 - 1), first)
    assert not torch.equal(changed(2**63 - 2), first)
    assert torch.equal(pictures, before)


def parts_of(monkeypatch, height, width, draws, seed=0):
    """The (top, left, height, width) of random parts."""
    import torchvision.transforms.v2.functional as functional

    found, random = [], seeded(seed)

    def note(picture, top, left, part_height, part_width, size):
        found.append((top, left, part_height, part_width))
        return picture

    monkeypatch.setattr(functional, "resized_crop", note)
    picture = torch.zeros(3, 1, 1, dtype=torch.uint8).expand(3, height, width)
    for _ in range(draws):
        random_part(picture, 8, random)
    return np.array(found)


@pytest.mark.parametrize(("height", "width"), [(64, 64), (40, 90), (90, 40), (8, 200), (1, 1), (2, 3)])
def test_a_random_part_lies_inside_and_reaches_every_edge(monkeypatch, height, width):
    top, left, part_height, part_width = parts_of(monkeypatch, height, width, 1500).T
    assert min(part_height.min(), part_width.min()) >= 1
    assert min(top.min(), left.min()) == 0
    assert (top + part_height).max() == height
    assert (left + part_width).max() == width


def test_areas_are_even_from_a_fifth_up_and_shapes_from_3_4_to_4_3(monkeypatch):
    """A square of a large area has no room for a long shape: there the longer side is cut, so the top is lower."""
    _, _, height, width = parts_of(monkeypatch, 1000, 1000, 4000).T
    area, ratio = height * width / 1e6, width / height
    assert area.min() > 0.198
    assert area.min() < 0.21
    assert 0.9 < area.max() <= 1
    for share in (0.3, 0.4, 0.5, 0.6):  # no part below 3/4 of the picture is ever cut
        assert (area < share).mean() == pytest.approx((share - 0.2) / 0.8, abs=0.03)
    assert 0.749 < ratio.min() < 0.76
    assert 1.32 < ratio.max() < 1.335
    small = np.log(ratio[area < 0.6])  # as likely wide as high, evenly in the logarithm
    assert small.mean() == pytest.approx(0, abs=0.02)
    assert small.std() == pytest.approx(2 * np.log(4 / 3) / 12**0.5, abs=0.01)


def test_places_of_a_random_part_are_even(monkeypatch):
    top, left, height, width = parts_of(monkeypatch, 1000, 1000, 4000).T
    roomy = np.maximum(height, width) < 900
    down, right = top[roomy] / (1000 - height[roomy]), left[roomy] / (1000 - width[roomy])
    for share in (down, right):
        assert share.mean() == pytest.approx(0.5, abs=0.03)
        assert share.std() == pytest.approx(1 / 12**0.5, abs=0.02)
    assert abs(np.corrcoef(down, right)[0, 1]) < 0.05


def test_a_part_shows_what_is_there():
    """A slope stays a slope: brighter to the right, and no brighter or darker than the picture."""
    slope = torch.arange(40, 200, 4, dtype=torch.uint8).expand(3, 40, 40)
    for seed in range(20):
        found = random_part(slope, 16, seeded(seed)).int()
        assert found.shape == (3, 16, 16)
        assert (found.diff(dim=2) >= 0).all()
        assert int(found[0, 0, -1] - found[0, 0, 0]) >= 40  # a fifth of the area is at least a third of a side
        assert int(found.min()) >= 40
        assert int(found.max()) <= 196
        assert (found == found[:1, :1]).all()


def test_what_is_refused():
    with pytest.raises(ValueError, match="augmentation is 'blur'; choose one of none, shift, crop"):
        Augmentation("blur", mirror=True)
