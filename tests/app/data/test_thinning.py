"""Fewer images of each class: at most so many, the same ones every time, in the order of the file."""

import numpy as np
import pytest

from shadowmetric.app.data.catalogue import open_dataset
from shadowmetric.app.data.thinning import limit_per_class
from shadowmetric.app.training.preparation import prepare
from shadowmetric.app.training.runs.settings import TrainSettings


@pytest.fixture(scope="module")
def digits():
    return open_dataset("digits", None)


def test_each_class_keeps_at_most_so_many(digits):
    found = limit_per_class(digits, 7)
    for name, split in found.parts().items():
        before = np.bincount(digits.parts()[name].labels)
        assert np.bincount(split.labels).tolist() == np.minimum(before, 7).tolist()
        assert name in found.notes[-1]
    assert limit_per_class(digits, None) is digits
    assert len(limit_per_class(digits, 10**6).train) == len(digits.train)


def test_the_same_ones_in_order_and_more_of_them_when_more_are_asked_for(digits):
    few, again, more = (
        [limit_per_class(digits, most).train.images.name(i) for i in range(10 * most)] for most in (5, 5, 9)
    )
    assert few == again
    assert set(few) < set(more)
    numbers = [int("".join(filter(str.isdigit, name)) or 0) for name in few]
    assert numbers == sorted(numbers)


def test_every_seed_is_judged_on_the_same_images():
    first, second = (
        prepare(TrainSettings(data="digits", most_per_class=12, validation=0.3, seed=seed, patience=0))
        for seed in (0, 1)
    )
    names = [[part.dataset.test.images.name(i) for i in range(len(part.dataset.test))] for part in (first, second)]
    assert names[0] == names[1]
    assert len(names[0]) == 120
