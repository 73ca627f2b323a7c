"""Own images: numbers for classes, the parts, the kind, and what is said about them."""

import numpy as np
import pytest
import torch

from shadowmetric.app.data.dataset import STANDARD, ZERO_SHOT, Split
from shadowmetric.app.data.images import ArrayImages
from shadowmetric.app.data.own.assembly import assemble, number_classes
from shadowmetric.app.data.splits import part_images
from shadowmetric.errors import DataMistake


def whole(labels):
    return Split(ArrayImages(torch.zeros(len(labels), 1, 1, 1, dtype=torch.uint8)), np.array(labels, np.int64))


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["b", "a", "b"], ("a", "b")),
        (["10", "9", "-1"], ("-1", "9", "10")),
        (["10", "9", "x"], ("10", "9", "x")),
        (["01", "1"], ("01", "1")),
        (["²", "3"], ("3", "²")),
    ],
)
def test_classes_are_sorted_as_numbers_if_all_are(names, wanted):
    labels, classes = number_classes(names)
    assert classes == wanted
    assert [classes[label] for label in labels] == names


def test_without_a_split_a_fifth_is_held_out():
    labels = np.repeat([0, 1], 20)
    found = assemble("toy", whole(labels), ("a", "b"))
    stay, held = part_images(labels, 0.2, seed=0)
    assert found.test.labels.tolist() == labels[held].tolist() == [0] * 4 + [1] * 4
    assert len(found.train) == len(stay)
    assert found.kind == STANDARD
    assert found.notes == ("No split is given: a fifth of each class, drawn by seed 0, is the test part.",)


@pytest.mark.parametrize(("each", "test"), [(4, 2), (7, 2), (8, 2), (13, 3)])
def test_of_a_few_classes_two_images_are_held_out_where_two_stay(each, test):
    labels = np.arange(10 * each) % 10
    found = assemble("toy", whole(labels), tuple("abcdefghij"))
    assert np.bincount(found.test.labels).tolist() == [test] * 10
    assert np.bincount(found.train.labels).tolist() == [each - test] * 10


@pytest.mark.parametrize(("classes", "each", "tested"), [(10, 2, 2), (10, 3, 2), (6, 3, 2), (4, 3, 2)])
def test_where_no_class_has_four_images_whole_ones_are_held_out(classes, each, tested):
    found = assemble("toy", whole(np.arange(classes * each) % classes), tuple("abcdefghij"[:classes]))
    assert found.kind == ZERO_SHOT
    assert sorted(np.unique(found.test.labels, return_counts=True)[1].tolist()) == [each] * tested
    assert len(found.train) == (classes - tested) * each
    (note,) = found.notes
    assert note.startswith("No split is given: a part of the classes, since none has four images, drawn by seed 0")


def test_what_cannot_be_measured_is_said():
    found = assemble("toy", whole(np.arange(9) % 3), ("a", "b", "c"))
    assert np.bincount(found.test.labels).tolist() == [1, 1, 1]
    assert found.notes[-1].startswith("No class has two test images, so retrieval cannot be measured; give four")
    assert not any(
        "cannot be measured" in note for note in assemble("toy", whole(np.arange(12) % 3), tuple("abc")).notes
    )


def test_of_many_small_classes_whole_ones_are_held_out():
    names = tuple(map(str, range(30)))
    found = assemble("shop", whole(np.arange(90) % 30), names)
    assert found.kind == ZERO_SHOT
    assert np.bincount(found.test.labels)[found.test.labels].tolist() == [3] * 18  # six classes, whole
    assert found.notes[0].startswith("No split is given: a fifth of the classes, since most have few images")
    assert assemble("shop", whole(np.arange(240) % 30), names).kind == STANDARD
    assert assemble("shop", whole(np.arange(96) % 24), names[:24]).kind == STANDARD


def test_the_kind_follows_from_the_classes():
    test = np.array([False, False, True, True])
    assert assemble("toy", whole([0, 0, 1, 1]), ("a", "b"), test).kind == ZERO_SHOT
    assert assemble("toy", whole([0, 1, 0, 1]), ("a", "b"), test).kind == STANDARD


def test_lone_classes_are_counted():
    test = np.array([False, False, True, True])
    assert assemble("toy", whole([0, 1, 0, 0]), ("a", "b"), test, ["x"]).notes == ("x", "1 class has one image only.")
    assert assemble("toy", whole([0, 1, 2, 2]), ("a", "b", "c"), test).notes == ("2 classes have one image only.",)


def test_what_is_refused():
    with pytest.raises(DataMistake, match=r"toy has 3 images of 1 class \(a\); give two or more classes"):
        assemble("toy", whole([0, 0, 0]), ("a",))
    with pytest.raises(DataMistake, match="3 training images and no test images in 3 classes"):
        assemble("toy", whole([0, 1, 2]), ("a", "b", "c"))
    with pytest.raises(DataMistake, match="no training images and 2 test images"):
        assemble("toy", whole([0, 1]), ("a", "b"), np.array([True, True]))
