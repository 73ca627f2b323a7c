"""Splits keep images, labels and groups together; official counts are held to; a missing part has a remedy."""

from pathlib import Path

import numpy as np
import pytest
import torch

from shadowmetric.app.data.dataset import STANDARD, ZERO_SHOT, Dataset, Reader, Split, check_counts
from shadowmetric.app.data.images import ArrayImages
from shadowmetric.errors import DataMistake


def split(labels, groups=None):
    pixels = torch.arange(len(labels), dtype=torch.uint8)[:, None, None, None].expand(-1, 1, 2, 2)
    return Split(ArrayImages(pixels), np.array(labels, np.int64), None if groups is None else np.array(groups))


def dataset(train=(0, 0, 1), test=(2, 3), **more):
    return Dataset("things", ZERO_SHOT, split(train), split(test), ("a", "b", "c", "d"), **more)


def reader(**more):
    settings = {
        "name": "things",
        "title": "Things",
        "folder": "things",
        "kind": ZERO_SHOT,
        "images": {"train": 3, "test": 2},
        "classes": {"train": 2, "test": 2},
        "source": "https://things.example",
        "terms": "research only",
        "read": lambda root, allow_partial: dataset(),
    }
    return Reader(**(settings | more))


@pytest.mark.parametrize("groups", [None, [7, 7, 8, 9]])
def test_some_images_keep_their_label_and_group(groups):
    whole = split([5, 6, 5, 4], groups)
    some = whole.take(np.array([3, 0, 3]))
    assert len(whole) == 4
    assert len(some) == len(some.images) == 3
    assert [int(some.images.read(number)[0, 0, 0]) for number in range(3)] == [3, 0, 3]
    assert some.labels.tolist() == [4, 5, 4]
    assert some.labels.dtype == np.int64
    assert some.groups is None if groups is None else some.groups.tolist() == [9, 7, 9]


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (np.array([0, 1, 2]), r"labels are int64 of shape \(3,\) for 2 images; give one int64 for each."),
        (np.array([0, 1], np.int32), r"labels are int32 of shape \(2,\) for 2 images"),
        (np.array([[0], [1]]), r"labels are int64 of shape \(2, 1\) for 2 images"),
        (np.array([0.0, 1.0]), "labels are float64"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, sentence):
    with pytest.raises(ValueError, match=sentence):
        Split(ArrayImages(torch.zeros(2, 1, 2, 2, dtype=torch.uint8)), labels)


def test_the_gallery_is_a_part_if_there_is_one():
    assert list(dataset().parts()) == ["train", "test"]
    gallery = split([2])
    parts = dataset(gallery=gallery).parts()
    assert list(parts) == ["train", "test", "gallery"]
    assert parts["gallery"] is gallery
    assert dataset().mirrors
    assert STANDARD != ZERO_SHOT


def test_official_counts_pass_as_they_are():
    found = dataset(notes=("as it was",))
    for allow_partial in (False, True):
        assert check_counts(reader(), found, allow_partial) is found


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (dataset(train=(0, 1)), "train has 2 images of 2 classes, officially 3 of 2"),
        (dataset(train=(0, 0, 0)), "train has 3 images of 1 class, officially 3 of 2"),
        (dataset(test=(2, 3, 3)), "test has 3 images of 2 classes, officially 2 of 2"),
        (
            dataset(train=(0,), test=()),
            "train has 1 image of 1 class, officially 3 of 2; test has no images of no classes, officially 2 of 2",
        ),
    ],
)
def test_other_counts_are_refused_or_noted(found, told):
    with pytest.raises(DataMistake) as refused:
        check_counts(reader(), found, False)
    remedy = "Get the whole of it from https://things.example, or allow this with --allow-partial."
    assert str(refused.value) == f"things: {told}. {remedy}"
    noted = check_counts(reader(), found, True)
    assert noted.notes == (f"A partial copy: things: {told}.",)
    assert noted.train is found.train
    assert found.notes == ()


def test_the_gallery_is_counted_and_large_numbers_are_readable():
    official = reader(images={"train": 3, "test": 2, "gallery": 12345}, classes={"train": 2, "test": 2, "gallery": 1})
    found = dataset(gallery=split([2, 2]), notes=("first",))
    noted = check_counts(official, found, True)
    assert noted.notes[0] == "first"
    assert "gallery has 2 images of 1 class, officially 12,345 of 1." in noted.notes[1]


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"download": lambda root: None}, "`shadowmetric data add things` downloads it."),
        ({}, "get the archive from https://things.example and run `shadowmetric data add things ARCHIVE`."),
        ({"archives": ("a.zip", "b.tar")}, "get a.zip and b.tar from https://things.example and run `shadowmetric"),
    ],
)
def test_what_is_missing_has_a_remedy(settings, remedy):
    sentence = str(reader(**settings).missing(Path("/data"), "labels.txt"))
    assert sentence.startswith(f"things: labels.txt is not there (below /data); {remedy}")
    assert isinstance(reader().missing(Path("/data"), "x"), DataMistake)
