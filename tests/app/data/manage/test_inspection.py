"""Looking at a dataset: counts, overlap, images that cannot be read, images that are there twice."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from shadowmetric.app.data.catalogue import DATASETS
from shadowmetric.app.data.dataset import STANDARD, ZERO_SHOT, Dataset, Split
from shadowmetric.app.data.images import ArrayImages, FileImages
from shadowmetric.app.data.manage.fingerprints import BLOCK, hash_images
from shadowmetric.app.data.manage.inspection import inspect
from shadowmetric.app.data.own.assembly import UNMEASURABLE


def split(values, labels, groups=None, title="image"):
    pixels = torch.tensor(values, dtype=torch.uint8).reshape(-1, 1, 1, 1).expand(-1, 1, 2, 2).clone()
    return Split(ArrayImages(pixels, title), np.array(labels, np.int64), None if groups is None else np.array(groups))


def dataset(train, test, kind=STANDARD, **settings):
    return Dataset("toy", kind, train, test, ("a", "b", "c", "d"), **settings)


def test_a_whole_dataset_has_no_faults():
    found = inspect(dataset(split([1, 2, 3], [0, 1, 1], [7, 8, 8]), split([4, 5], [1, 0], [9, 9]), notes=("n",)))
    assert found.faults() == []
    assert found.parts["train"].smallest == ("a", 1)
    assert found.parts["train"].largest == ("b", 2)
    assert (found.common_classes, found.new_classes, found.common_groups) == (2, 0, 0)
    assert (found.unreadable, found.shared, found.conflicts, found.decoded) == (0, 0, 0, True)
    assert found.parts["train"].copies == 0
    assert found.notes == ("n",)


def test_copies_within_and_across_the_parts_are_named():
    train, test = split([1, 2, 1, 1], [0, 0, 0, 1], title="train"), split([2, 9, 9, 2], [0, 1, 1, 1], title="test")
    found = inspect(dataset(train, test))
    assert found.parts["train"].copies_named == (("train 2", "train 0"), ("train 3", "train 0"))
    assert found.parts["test"].copies == 2
    assert found.shared_named == (("test 0", "train 1"), ("test 3", "train 1"))
    assert found.conflicts == 2
    assert found.conflicts_named == (("train 3 (b)", "train 0 (a)"), ("test 3 (b)", "train 1 (a)"))
    assert found.faults() == []
    assert found.findings() == [
        "2 test images are among the training images too, which flatters scores; keep each on one side.",
        "2 images have two classes or more; keep one of each.",
    ]


def test_each_further_class_of_an_image_is_named_once():
    train = split([1, 1, 1, 1, 5], [0, 1, 1, 2, 0], title="train")
    found = inspect(dataset(train, split([6, 7], [1, 2])))
    assert found.conflicts == 1
    assert found.conflicts_named == (("train 1 (b)", "train 0 (a)"), ("train 3 (c)", "train 0 (a)"))


def test_what_was_not_read_is_a_finding_and_no_note():
    found = inspect(dataset(split([1, 2], [0, 1]), split([3], [0]), notes=("x", "y"), findings=("y",)), quick=True)
    assert (found.notes, found.findings(), found.faults()) == (("x",), ["y"], [])
    found = inspect(dataset(split([1, 2], [0, 1]), split([3], [0]), notes=("x", UNMEASURABLE)), quick=True)
    assert (found.notes, found.findings()) == (("x",), [UNMEASURABLE])


def test_what_is_shared_is_found_in_an_official_copy_too():
    reader = replace(DATASETS["cub200"], images={"train": 2, "test": 1}, classes={"train": 1, "test": 1})
    found = inspect(dataset(split([1, 2], [0, 0]), split([1], [0])), reader)
    assert (found.shared, found.faults()) == (1, [])
    assert found.findings()[0].startswith("1 test image is among the training images too")


def test_the_gallery_is_a_part_like_others():
    found = inspect(dataset(split([1], [0]), split([2], [1]), ZERO_SHOT, gallery=split([3, 1], [1, 1])))
    assert found.parts["gallery"].images == 2
    assert found.shared == 1


def test_pixels_of_another_shape_are_another_image():
    train = Split(ArrayImages(torch.zeros(1, 1, 2, 8, dtype=torch.uint8)), np.array([0]))
    test = Split(ArrayImages(torch.zeros(1, 1, 8, 2, dtype=torch.uint8)), np.array([0]))
    assert inspect(dataset(train, test)).shared == 0


def test_counts_beside_the_official_ones():
    reader = replace(DATASETS["cub200"], images={"train": 3, "test": 1}, classes={"train": 2, "test": 1})
    found = inspect(dataset(split([1, 2], [0, 1]), split([3], [0])), reader)
    assert not found.parts["train"].is_official
    assert found.parts["test"].is_official
    assert found.faults() == ["The counts are not the official ones."]
    assert found.faults(allow_partial=True) == []


def test_overlap_is_a_fault():
    zero_shot = dataset(split([1, 2], [0, 1]), split([3, 4], [1, 2]), ZERO_SHOT)
    assert inspect(zero_shot).faults() == ["1 class is in training and test, which must have none in common."]
    grouped = dataset(split([1, 2], [0, 1], [5, 6]), split([3, 4], [0, 1], [6, 7]))
    assert inspect(grouped).faults() == ["1 group is on both sides of the split; each belongs to one."]
    assert inspect(dataset(split([1], [0]), split([2, 3], [1, 2]))).new_classes == 2


@pytest.fixture
def files(tmp_path):
    for number in range(14):
        (tmp_path / f"{number}.png").write_bytes(b"broken")
    Image.new("RGB", (20, 20), (1, 2, 3)).save(tmp_path / "0.png")
    Image.new("RGB", (20, 20), (1, 2, 3)).save(tmp_path / "0.bmp")
    whole = (tmp_path / "0.png").read_bytes()
    (tmp_path / "1.png").write_bytes(whole[:-30])  # its header is whole
    return FileImages(tmp_path, [f"{number}.png" for number in range(14)]), FileImages(tmp_path, ["0.bmp", "gone.png"])


def test_files_are_decoded_as_a_whole_and_known_by_their_pixels(files):
    train, test = (Split(images, np.zeros(len(images), np.int64)) for images in files)
    found = inspect(dataset(train, test))
    assert found.unreadable == 14
    assert len(found.unreadable_named) == 10
    assert "1.png cannot be read as an image" in found.unreadable_named[0]
    assert found.shared_named == (("0.bmp", "0.png"),)
    assert found.faults()[0] == "14 images cannot be read."


def test_quickly_nothing_is_decoded(files, monkeypatch):
    monkeypatch.setattr(FileImages, "read", lambda self, number: pytest.fail("it was decoded"))
    train, test = (Split(images, np.zeros(len(images), np.int64)) for images in files)
    found = inspect(dataset(train, test), quick=True)
    assert found.faults() == []
    assert not found.decoded


def test_hashes_come_in_order_and_progress_to_the_end():
    count = 5 * BLOCK + 3
    values = [number % 251 for number in range(count)]
    prints = [digest for digest, _ in hash_images(split(values, values).images)]
    assert len(prints) == count
    assert prints[:251] == prints[251:] + prints[count - 251 : 251]
    assert len(set(prints)) == 251
    told = []
    inspect(dataset(split([1, 2], [0, 1]), split([3], [0])), report=lambda stage, share: told.append((stage, share)))
    assert told == [("decode train", 1 / 3), ("decode train", 2 / 3), ("decode test", 1.0)]


def test_an_interruption_ends_the_threads():
    import threading

    def report(stage, share):
        raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        inspect(dataset(split(range(200), [0] * 200), split([3], [0])), report=report)
    assert threading.active_count() == before
