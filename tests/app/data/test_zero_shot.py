"""Halving the classes: who trains, who tests, and what cannot be halved."""

import numpy as np
import pytest
import torch

from shadowmetric.app.data.dataset import STANDARD, ZERO_SHOT, Dataset, Split
from shadowmetric.app.data.images import ArrayImages
from shadowmetric.app.data.zero_shot import by_classes
from shadowmetric.errors import DataMistake


def split(labels, groups=None):
    pixels = torch.arange(len(labels), dtype=torch.uint8).reshape(-1, 1, 1, 1)
    return Split(ArrayImages(pixels), np.array(labels, np.int64), groups)


def dataset(train, test, **settings):
    return Dataset("toy", STANDARD, train, test, tuple("abcdefgh"), **settings)


def test_the_first_half_trains_and_the_second_tests():
    groups = np.array([9, 8, 7, 6, 5])
    train = split([0, 1, 2, 3, 1], groups)
    found = by_classes(dataset(train, split([3, 2, 1, 0, 3]), gallery=split([0]), notes=("first",)))
    assert found.kind == ZERO_SHOT
    assert found.gallery is None
    assert found.train.labels.tolist() == [0, 1, 1]
    assert found.train.groups.tolist() == [9, 8, 5]
    assert found.train.images.pixels.flatten().tolist() == [0, 1, 4]
    assert found.test.labels.tolist() == [3, 2, 3]
    assert found.test.images.pixels.flatten().tolist() == [0, 1, 4]
    assert found.classes == tuple("abcdefgh")
    assert found.notes[0] == "first"
    assert "the first 2 of 4 classes train" in found.notes[1]


def test_of_an_odd_number_the_smaller_half_trains():
    found = by_classes(dataset(split([0, 2, 5]), split([0, 2, 5])))
    assert found.train.labels.tolist() == [0]
    assert found.test.labels.tolist() == [2, 5]


def test_a_class_of_one_part_only_counts_too():
    found = by_classes(dataset(split([0, 1]), split([0, 2, 3])))
    assert (found.train.labels.tolist(), found.test.labels.tolist()) == ([0, 1], [2, 3])


def test_what_is_zero_shot_stays():
    already = Dataset("toy", ZERO_SHOT, split([5, 6, 7]), split([0]), tuple("abcdefgh"))
    assert by_classes(already) is already


def test_one_class_cannot_be_halved():
    with pytest.raises(DataMistake, match="halves of its 1 class leave no training images and 2 test images"):
        by_classes(dataset(split([4, 4]), split([4, 4])))
