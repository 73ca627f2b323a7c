"""What is kept equals what is read each time, the limit holds, and broken files are refused by name or left out."""

import numpy as np
import pytest
import torch
from PIL import Image

from shadowmetric.app.data.cache import CachedImages, ResizedImages, estimated_bytes, prepare_images
from shadowmetric.app.data.dataset import Split
from shadowmetric.app.data.images import ArrayImages, FileImages
from shadowmetric.app.data.preprocessing import Preprocessing
from shadowmetric.errors import DataMistake

SHAPE = Preprocessing(12, 16, 3)
PLENTY = 2**30


def files(folder, count=8, broken=()):
    """A split of files of different sizes; those named in broken hold a text."""
    random = np.random.default_rng(0)
    names = [f"{number}.png" for number in range(count)]
    for number, name in enumerate(names):
        if number in broken:
            (folder / name).write_text("no image")
        else:
            pixels = random.integers(0, 256, (20 + number, 40 - 2 * number, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name)
    labels = np.arange(count, dtype=np.int64) * 10
    return Split(FileImages(folder, names), labels, np.arange(count) + 100)


def array_split(height=16, width=16, channels=3, count=5):
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (count, channels, height, width), generator=generator, dtype=torch.uint8)
    return Split(ArrayImages(pixels, "thing"), np.arange(count, dtype=np.int64))


def test_what_fits_is_kept_and_equals_what_is_read_each_time(tmp_path):
    split = files(tmp_path)
    kept, broken = prepare_images(split, SHAPE, limit_bytes=PLENTY)
    not_kept, also_broken = prepare_images(split, SHAPE, limit_bytes=0)
    assert broken == also_broken == []
    assert isinstance(kept.images, CachedImages)
    assert isinstance(not_kept.images, ResizedImages)
    for number in range(len(split)):
        wanted = SHAPE.resize_short_side(split.images.read(number))
        for found in (kept, not_kept):
            assert torch.equal(found.images.read(number), wanted)
            assert found.images.name(number) == split.images.name(number)
    for found in (kept, not_kept):
        assert len(found) == len(found.images) == len(split)
        assert np.array_equal(found.labels, split.labels)
        assert np.array_equal(found.groups, split.groups)
    for file in tmp_path.iterdir():
        file.unlink()
    assert kept.images.read(3).dtype == torch.uint8  # from memory


def test_the_limit_is_the_bytes_of_the_resized_images(tmp_path):
    split = files(tmp_path)
    total = sum(SHAPE.resize_short_side(split.images.read(number)).numel() for number in range(len(split)))
    assert estimated_bytes(ResizedImages(split.images, SHAPE)) == pytest.approx(total)
    assert isinstance(prepare_images(split, SHAPE, limit_bytes=total + 1)[0].images, CachedImages)
    assert isinstance(prepare_images(split, SHAPE, limit_bytes=total - 1)[0].images, ResizedImages)


def test_bytes_are_estimated_from_some_images():
    class Counted(ArrayImages):
        def read(self, number):
            looked.append(number)
            return super().read(number)

    looked = []
    images = Counted(torch.zeros(500, 1, 4, 4, dtype=torch.uint8))
    assert estimated_bytes(images, 10) == 500 * 16
    assert len(looked) == 10
    assert (looked[0], looked[-1]) == (0, 499)
    assert estimated_bytes(ArrayImages(torch.zeros(0, 1, 4, 4, dtype=torch.uint8))) == 0


@pytest.mark.parametrize("limit", [0, PLENTY])
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize(("height", "width"), [(16, 16), (16, 20), (30, 16)])
def test_arrays_of_the_right_size_are_not_copied(limit, skip, height, width):
    split = array_split(height, width)
    found, broken = prepare_images(split, SHAPE, limit_bytes=limit, skip_broken=skip)
    assert found is split
    assert broken == []


@pytest.mark.parametrize(("height", "width", "channels"), [(17, 18, 3), (15, 16, 3), (16, 16, 1), (20, 20, 1)])
def test_other_arrays_are_resized(height, width, channels):
    split = array_split(height, width, channels)
    for limit, kind in ((PLENTY, CachedImages), (10, ResizedImages)):
        found, _ = prepare_images(split, SHAPE, limit_bytes=limit)
        assert isinstance(found.images, kind)
        assert found.images.name(2) == "thing 2"
        for number in range(len(split)):
            image = found.images.read(number)
            assert len(image) == 3
            assert min(image.shape[1:]) == 16
            assert torch.equal(image, SHAPE.resize_short_side(split.images.read(number)))


@pytest.mark.parametrize("limit", [0, PLENTY])
@pytest.mark.parametrize("broken", [[0], [7], [2, 3, 6], [0, 1, 2, 3, 4, 5, 6]])
def test_broken_images_are_left_out_and_the_others_keep_their_order(tmp_path, limit, broken):
    split = files(tmp_path, broken=broken)
    whole = [number for number in range(8) if number not in broken]
    found, names = prepare_images(split, SHAPE, limit_bytes=limit, skip_broken=True)
    assert names == [f"{number}.png" for number in broken]
    assert isinstance(found.images, CachedImages if limit else ResizedImages)
    assert len(found) == len(found.images) == len(whole)
    assert found.labels.tolist() == [10 * number for number in whole]
    assert found.groups.tolist() == [100 + number for number in whole]
    for place, number in enumerate(whole):
        assert found.images.name(place) == f"{number}.png"
        assert torch.equal(found.images.read(place), SHAPE.resize_short_side(split.images.read(number)))


def test_broken_images_are_refused_by_name(tmp_path):
    split = files(tmp_path, broken=[1, 4])
    with pytest.raises(DataMistake) as refused:
        prepare_images(split, SHAPE, limit_bytes=PLENTY)
    sentence = str(refused.value)
    assert sentence.startswith(f"2 images cannot be read: {tmp_path / '1.png'} cannot be read as an image (")
    assert f" {tmp_path / '4.png'} cannot be read" in sentence
    assert "more" not in sentence
    assert sentence.endswith("). Repair or remove them; `shadowmetric train --broken skip` leaves them out.")


def test_many_broken_images_are_counted(tmp_path):
    split = files(tmp_path, broken=range(7))
    for number in range(7):
        (tmp_path / f"{number}.png").unlink()
    with pytest.raises(DataMistake) as refused:
        prepare_images(split, SHAPE, limit_bytes=PLENTY)
    named = " ".join(f"{tmp_path / f'{number}.png'} is not there." for number in range(5))
    remedy = "Repair or remove them; `shadowmetric train --broken skip` leaves them out."
    assert str(refused.value) == f"7 images cannot be read: {named} And 2 more. {remedy}"


def test_one_that_is_not_kept_is_named_when_it_is_met(tmp_path):
    found, broken = prepare_images(files(tmp_path, broken=[1]), SHAPE, limit_bytes=0)
    assert broken == []
    assert found.images.read(0).shape[0] == 3
    with pytest.raises(ValueError, match=r"1\.png cannot be read as an image"):
        found.images.read(1)


@pytest.mark.parametrize("limit", [0, PLENTY])
def test_none_readable(tmp_path, limit):
    split = files(tmp_path, count=3, broken=range(3))
    with pytest.raises(DataMistake, match=r"none of the 3 images can be read; the first: .*0\.png cannot be read"):
        prepare_images(split, SHAPE, limit_bytes=limit, skip_broken=True)
    with pytest.raises(DataMistake, match=r"3 images cannot be read: .*2\.png"):
        prepare_images(split, SHAPE, limit_bytes=limit)


@pytest.mark.parametrize("split", [array_split(count=0), array_split(20, 20, count=0)])
@pytest.mark.parametrize("skip", [False, True])
def test_no_images(split, skip):
    with pytest.raises(DataMistake, match=r"there are no images\."):
        prepare_images(split, SHAPE, limit_bytes=PLENTY, skip_broken=skip)


@pytest.mark.parametrize("limit", [0, PLENTY])
def test_the_count_is_told_up_to_the_end(tmp_path, limit):
    told = []
    prepare_images(files(tmp_path, broken=[0, 5]), SHAPE, limit_bytes=limit, skip_broken=True, tell=told.append)
    assert told == list(range(1, 9))
    told = []
    prepare_images(array_split(), SHAPE, limit_bytes=limit, tell=told.append)
    assert told == []  # there was nothing to do


def test_some_of_each_source(tmp_path):
    split = files(tmp_path)
    numbers = np.array([5, 0, 5])
    for limit in (0, PLENTY):
        whole = prepare_images(split, SHAPE, limit_bytes=limit)[0]
        some = whole.take(numbers)
        assert type(some.images) is type(whole.images)
        assert some.labels.tolist() == [50, 0, 50]
        assert some.groups.tolist() == [105, 100, 105]
        for place, number in enumerate(numbers.tolist()):
            assert torch.equal(some.images.read(place), whole.images.read(number))
            assert some.images.name(place) == f"{number}.png"
    assert some.images.read(0) is whole.images.read(5)  # shared, not copied
