"""Random changes: every pixel has a place it came from, and the seed and the place in the batch decide all of it."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shadowmetric.app.data.augmentation import CHANCES, KINDS, NONE, Augmentation, random_part, random_shift
from shadowmetric.app.data.preprocessing import Preprocessing, middle


def numbered(height, width, channels=1, count=1):
    """Images in which no pixel has the value of another, nor 0; more than a byte, which shifting does not mind."""
    values = torch.arange(1, count * channels * height * width + 1, dtype=torch.int32)
    return values.view(count, channels, height, width)


def noise(count, height, width, channels=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, (count, channels, height, width), generator=generator, dtype=torch.uint8)


LARGEST = 1 - 2**-24  # the largest chance that torch.rand draws


def chances(seed, count):
    return torch.rand(count, CHANCES, generator=torch.Generator().manual_seed(seed))


def place(square, framed):
    """Where the square was cut from its image; fails if it was not."""
    (channels, size, _), (height, width) = square.shape, framed.shape[-2:]
    found = [
        (top, left)
        for top in range(height - size + 1)
        for left in range(width - size + 1)
        if torch.equal(framed[:, top : top + size, left : left + size], square)
    ]
    assert len(found) == 1, (channels, found)
    return found[0]


def framed_by_hand(image, size):
    """The image in black of an eighth of the size, unless it is larger than the square on every side."""
    channels, height, width = image.shape
    rim = size // 8 if min(height, width) <= size else 0
    frame = torch.zeros(channels, height + 2 * rim, width + 2 * rim, dtype=image.dtype)
    frame[:, rim : rim + height, rim : rim + width] = image
    return frame


sides = st.tuples(st.integers(1, 20), st.integers(0, 8), st.integers(0, 8))


@given(sides, st.sampled_from([1, 3]), st.integers(1, 4), st.integers(0, 2**62), st.booleans())
def test_a_shifted_square_is_cut_from_the_framed_image(side, channels, count, seed, as_list):
    size, higher, wider = side
    images = numbered(size + higher, size + wider, channels, count)
    found = random_shift(list(images) if as_list else images, size, chances(seed, count))
    assert found.shape == (count, channels, size, size)
    assert found.dtype == images.dtype
    for square, image in zip(found, images, strict=True):
        place(square, framed_by_hand(image, size))


@pytest.mark.parametrize(("height", "width", "places"), [(16, 16, 25), (16, 18, 35), (17, 17, 4), (18, 20, 15)])
def test_every_place_is_reached_and_about_as_often(height, width, places):
    """16 with a rim of 2 on each side: 5 × 5 places; larger images: as many as their margin has."""
    images = numbered(height, width).expand(40 * places, -1, -1, -1)
    found = random_shift(images, 16, chances(0, 40 * places))
    counts = found[:, 0, 8, 8].unique(return_counts=True)[1]  # what stands in the middle tells the place
    assert len(counts) == places
    assert counts.min() > 15
    assert counts.max() < 75


@pytest.mark.parametrize("places", [*range(1, 130), 255, 257, 1023, 1025, 4097])
def test_chances_are_split_evenly_among_the_places(places):
    """Of a column of pixels the square of one is the pixel that the chance names, the first by 0 and the last by 1."""
    images = numbered(places, 1).expand(4, -1, -1, -1)
    drawn = torch.tensor([0, 0.25, 0.5, LARGEST])
    down, right = torch.zeros(4, CHANCES), torch.zeros(4, CHANCES)
    down[:, 0], right[:, 1] = drawn, drawn
    wanted = [1, 1 + places // 4, 1 + places // 2, places]
    assert random_shift(images, 1, down).flatten().tolist() == wanted
    assert random_shift(images.mT, 1, right).flatten().tolist() == wanted


@given(st.integers(0, 2**62), st.integers(1, 5), st.sampled_from([(16, 16), (16, 19), (20, 24)]))
def test_a_list_is_shifted_as_a_tensor_and_as_each_image_alone(seed, count, sides):
    images, drawn = noise(count, *sides), chances(seed, count)
    found = random_shift(images, 16, drawn)
    assert torch.equal(random_shift(list(images), 16, drawn), found)
    for place in range(count):
        assert torch.equal(random_shift(images[[place]], 16, drawn[[place]]), found[[place]])


@given(
    st.sampled_from(KINDS),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**62),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
)
def test_parts_of_a_batch_are_changed_as_the_whole(kind, mirror, as_list, seed, sizes):
    images, shape = noise(sum(sizes), 12, 15), Preprocessing(10, 12, 3)
    change = Augmentation(kind, mirror)

    def given_as(some):
        return list(some) if as_list else some

    whole = change(given_as(images), shape, seed)
    for last, size in zip(np.cumsum(sizes).tolist(), sizes, strict=True):
        part = change(given_as(images[last - size : last]), shape, seed, first=last - size)
        assert torch.equal(part, whole[last - size : last])


@pytest.mark.parametrize("kind", ["shift", "crop"])
@pytest.mark.parametrize("first", [1, 3, 4, 7, 16, 100, 127])
def test_the_tail_of_a_large_batch_is_changed_as_in_it(kind, first):
    """Whole numbers of a vector register or not; and from another place the same images are changed otherwise."""
    images, shape = noise(128, 12, 15), Preprocessing(10, 12, 3)
    change = Augmentation(kind, mirror=True)
    tail = change(images, shape, 8)[first:]
    assert torch.equal(change(images[first:], shape, 8, first), tail)
    assert not torch.equal(change(images[first:], shape, 8), tail)


def test_images_of_different_sizes_are_shifted_too():
    images = [numbered(16, 16)[0], numbered(20, 17)[0], numbered(16, 30)[0]]
    for square, image in zip(random_shift(images, 16, chances(3, 3)), images, strict=True):
        place(square, framed_by_hand(image, 16))


@pytest.mark.parametrize("kind", ["shift", "crop"])
@pytest.mark.parametrize("as_list", [False, True])
def test_the_mirror_turns_about_every_second_square_left_to_right(kind, as_list):
    images = noise(800, 12, 12)
    images = list(images) if as_list else images
    shape = Preprocessing(12, 12, 3)
    plain = Augmentation(kind, mirror=False)(images, shape, 5)
    mirrored = Augmentation(kind, mirror=True)(images, shape, 5)
    same = (mirrored == plain).flatten(1).all(1)
    turned = (mirrored == plain.flip(-1)).flatten(1).all(1)
    assert (same ^ turned).all()
    assert 350 < int(turned.sum()) < 450


@pytest.mark.parametrize("mirror", [False, True])
def test_none_is_the_middle_and_draws_nothing(mirror):
    images = noise(4, 20, 27)
    shape = Preprocessing(16, 20, 3)
    for given_as in (images, list(images)):
        found = Augmentation("none", mirror)(given_as, shape, 1)
        assert torch.equal(found, middle(images, 16))
    assert torch.equal(NONE(images, shape, 2), middle(images, 16))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("sizes", [[(16, 16)] * 3, [(16, 23)] * 3, [(31, 16)] * 3, [(16, 16), (16, 40), (33, 16)]])
def test_shape_and_type_of_every_kind(kind, channels, sizes):
    images = [noise(1, *side, channels)[0] for side in sizes]
    shape = Preprocessing(13, 16, channels)
    given_as = [images, tuple(images)] + ([torch.stack(images)] if len(set(sizes)) == 1 else [])
    for some in given_as:
        found = Augmentation(kind, mirror=True)(some, shape, 0)
        assert found.shape == (3, channels, 13, 13)
        assert found.dtype == torch.uint8


@pytest.mark.parametrize("kind", ["shift", "crop"])
@pytest.mark.parametrize("as_list", [False, True])
def test_the_seed_alone_decides_and_the_images_stay_as_they_are(kind, as_list):
    images = noise(6, 20, 20)
    before = images.clone()
    change, shape = Augmentation(kind, mirror=True), Preprocessing(16, 20, 3)

    def changed(seed):
        return change(list(images) if as_list else images, shape, seed)

    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = changed(2**63 - 1)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert torch.equal(changed(2**63 - 1), first)
    assert not torch.equal(changed(2**63 - 2), first)
    assert torch.equal(images, before)


def test_mirror_and_place_of_a_shift_have_nothing_to_do_with_each_other():
    """The middle, which no mirror moves, tells the place of a square; its neighbor whether it was mirrored."""
    images = numbered(17, 17).expand(4000, -1, -1, -1)
    found = Augmentation("shift", mirror=True)(images, Preprocessing(17, 17, 1), 0)
    top, left = np.divmod(found[:, 0, 8, 8].numpy() - 1, 17)
    turned = (found[:, 0, 8, 8] > found[:, 0, 8, 9]).numpy()
    assert len(set(zip(top, left, turned, strict=True))) == 5 * 5 * 2
    assert uncorrelated(top, left, turned)


def test_area_shape_place_and_mirror_of_a_part_have_nothing_to_do_with_each_other(monkeypatch):
    slope = torch.arange(8, dtype=torch.uint8).expand(1, 8, 8)
    parts = noted_parts(monkeypatch, slope)
    images = torch.zeros(1, 1, 1, dtype=torch.uint8).expand(6000, 1, 1000, 1000)
    found = Augmentation("crop", mirror=True)(images, Preprocessing(8, 8, 1), 0)
    top, left, height, width = np.array(parts).T
    roomy = height * width < 0.7e6  # no side of these is cut
    turned = (found[:, 0, 0, 0] > found[:, 0, 0, 7]).numpy()
    down, right = top / (1001 - height), left / (1001 - width)
    drawn = (height * width, np.log(width / height), down, right, turned)
    assert uncorrelated(*(each[roomy] for each in drawn))


def uncorrelated(*drawn):
    found = np.corrcoef(np.array(drawn, float))
    return np.abs(found - np.eye(len(drawn))).max() < 4 / len(drawn[0]) ** 0.5


def noted_parts(monkeypatch, shown):
    """A list that gets the (top, left, height, width) of every part; a part then looks as what is shown."""
    import torchvision.transforms.v2.functional as functional

    found = []

    def note(image, top, left, part_height, part_width, size):
        found.append((top, left, part_height, part_width))
        return shown

    monkeypatch.setattr(functional, "resized_crop", note)
    return found


def parts_of(monkeypatch, height, width, drawn):
    """The (top, left, height, width) of random parts."""
    image = torch.zeros(3, 1, 1, dtype=torch.uint8).expand(3, height, width)
    found = noted_parts(monkeypatch, image)
    for each in drawn:
        random_part(image, 8, each)
    return np.array(found)


@pytest.mark.parametrize(("height", "width"), [(64, 64), (40, 90), (90, 40), (8, 200), (1, 1), (2, 3), (4096, 4095)])
def test_a_part_of_the_smallest_and_largest_chances_lies_inside(monkeypatch, height, width):
    drawn = torch.tensor(list(product((0, LARGEST), repeat=CHANCES)))
    top, left, part_height, part_width = parts_of(monkeypatch, height, width, drawn).T
    down, right = drawn[:, 2].numpy() > 0, drawn[:, 3].numpy() > 0
    assert (np.where(down, height - part_height, 0) == top).all()
    assert (np.where(right, width - part_width, 0) == left).all()
    assert min(part_height.min(), part_width.min()) >= 1
    assert min(top.min(), left.min()) == 0


@pytest.mark.parametrize(("height", "width"), [(64, 64), (40, 90), (90, 40), (8, 200), (1, 1), (2, 3)])
def test_a_random_part_lies_inside_and_reaches_every_edge(monkeypatch, height, width):
    top, left, part_height, part_width = parts_of(monkeypatch, height, width, chances(0, 1500)).T
    assert min(part_height.min(), part_width.min()) >= 1
    assert min(top.min(), left.min()) == 0
    assert (top + part_height).max() == height
    assert (left + part_width).max() == width


def test_areas_are_even_from_a_fifth_up_and_shapes_from_3_4_to_4_3(monkeypatch):
    """A square of a large area has no room for a long shape: there the longer side is cut, so the top is lower."""
    _, _, height, width = parts_of(monkeypatch, 1000, 1000, chances(0, 4000)).T
    area, ratio = height * width / 1e6, width / height
    assert area.min() > 0.198
    assert area.min() < 0.21
    assert 0.9 < area.max() <= 1
    for share in (0.3, 0.4, 0.5, 0.6):  # no part below 3/4 of the image is ever cut
        assert (area < share).mean() == pytest.approx((share - 0.2) / 0.8, abs=0.03)
    assert 0.749 < ratio.min() < 0.76
    assert 1.32 < ratio.max() < 1.335
    small = np.log(ratio[area < 0.6])  # as likely wide as high, evenly in the logarithm
    assert small.mean() == pytest.approx(0, abs=0.02)
    assert small.std() == pytest.approx(2 * np.log(4 / 3) / 12**0.5, abs=0.01)


def test_places_of_a_random_part_are_even(monkeypatch):
    top, left, height, width = parts_of(monkeypatch, 1000, 1000, chances(0, 4000)).T
    roomy = np.maximum(height, width) < 900
    down, right = top[roomy] / (1000 - height[roomy]), left[roomy] / (1000 - width[roomy])
    for share in (down, right):
        assert share.mean() == pytest.approx(0.5, abs=0.03)
        assert share.std() == pytest.approx(1 / 12**0.5, abs=0.02)
    assert abs(np.corrcoef(down, right)[0, 1]) < 0.05


def test_a_part_shows_what_is_there():
    """A slope stays a slope: brighter to the right, and no brighter or darker than the image."""
    slope = torch.arange(40, 200, 4, dtype=torch.uint8).expand(3, 40, 40)
    for drawn in chances(0, 20):
        found = random_part(slope, 16, drawn).int()
        assert found.shape == (3, 16, 16)
        assert (found.diff(dim=2) >= 0).all()
        assert int(found[0, 0, -1] - found[0, 0, 0]) >= 40  # a fifth of the area is at least a third of a side
        assert int(found.min()) >= 40
        assert int(found.max()) <= 196
        assert (found == found[:1, :1]).all()


def test_what_is_refused():
    with pytest.raises(ValueError, match="augmentation is 'blur'; choose one of none, shift, crop"):
        Augmentation("blur", mirror=True)
