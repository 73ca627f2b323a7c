"""The embedded digits: the same as scikit-learn's, whole, and split by the stated rule."""

from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits

from shadowmetric.app.data.datasets.digits import DIGITS, first_two_thirds

NOWHERE = Path("there is no such folder")


def test_they_are_scikit_learn_s_scaled_to_a_byte_and_split_in_file_order():
    digits, true = DIGITS.read(NOWHERE, False), load_digits()
    assert torch.equal(torch.unique(digits.train.images.pixels), torch.tensor([round(v * 255 / 16) for v in range(17)]))
    for label in range(10):
        members = np.flatnonzero(true.target == label)
        count = 2 * len(members) // 3
        for split, numbers in ((digits.train, members[:count]), (digits.test, members[count:])):
            pixels = split.images.pixels[torch.from_numpy(np.flatnonzero(split.labels == label))]
            assert np.array_equal(np.rint(pixels[:, 0].numpy() * (16 / 255)), true.images[numbers])


def test_counts_shapes_and_what_is_said():
    digits = DIGITS.read(NOWHERE, False)
    assert (len(digits.train), len(digits.test)) == (1195, 602)
    assert digits.train.images.read(0).shape == (1, 8, 8)
    assert digits.classes == tuple("0123456789")
    assert not digits.mirrors
    assert "first two thirds" in digits.notes[0]


def test_the_first_two_thirds_of_each_class():
    assert first_two_thirds(np.array([1, 0, 1, 1, 0, 0, 0])).tolist() == [True, True, True, False, True, False, False]
