"""Images of a dataset with serving's pixels, and samples of them."""

import numpy as np
from PIL import Image

from shadowmetric.app.data.dataset import Split
from shadowmetric.app.data.images import ArrayImages, FileImages
from shadowmetric.app.serving.exporting.squares import some_of, some_of_each, square_of, squares_of
from shadowmetric.runtime.images import Shape, open_image


def split_of(labels):
    import torch

    pixels = torch.arange(len(labels), dtype=torch.uint8)[:, None, None, None].expand(-1, 1, 8, 8)
    return Split(ArrayImages(pixels), np.array(labels, np.int64))


def test_files_are_read_as_serving_reads_them(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (30, 50, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif(6))
    shape = Shape(12, 16, 3)
    found = square_of(FileImages(tmp_path, ["a.png"]), 0, shape)
    np.testing.assert_array_equal(found, shape.square(open_image(tmp_path / "a.png")))
    assert found.shape == (3, 12, 12)


def exif(turn):
    found = Image.Exif()
    found[0x0112] = turn
    return found


def test_arrays_keep_their_pixels_and_batches_their_order():
    split = split_of(range(7))
    found = list(squares_of(split.images, Shape(8, 8, 1), 3))
    assert [numbers for numbers, _ in found] == [[0, 1, 2], [3, 4, 5], [6]]
    assert np.concatenate([squares for _, squares in found])[:, 0, 0, 0].tolist() == list(range(7))


def test_a_sample_is_drawn_by_its_seed_and_all_are_taken_if_they_are_few():
    split = split_of([0, 1] * 50)
    assert some_of(split, 100) is split
    ours, again, other = (some_of(split, 10, seed) for seed in (0, 0, 1))
    numbers = [part.images.pixels[:, 0, 0, 0].tolist() for part in (ours, again, other)]
    assert numbers[0] == numbers[1] == sorted(numbers[0]) != numbers[2]
    assert len(set(numbers[0])) == 10


def test_a_sample_for_retrieval_has_as_many_of_each_class_and_two_at_least():
    even = some_of_each(split_of([0] * 60 + [1] * 30 + [2] * 10), 30)
    assert np.bincount(even.labels).tolist() == [10, 10, 10]
    many = some_of_each(split_of(list(range(50)) * 3), 21)
    counts = np.bincount(many.labels)
    assert set(counts[counts > 0]) == {2}
    assert len(many) == 20
    assert some_of_each(even, 30) is even
