"""Counts in words, and that every sentence for people takes them from one function."""

from pathlib import Path

import pytest

import shadowmetric
from shadowmetric.runtime.counting import count, plural_of

HOUSE = Path(shadowmetric.__file__).parent


@pytest.mark.parametrize(
    ("items", "words"), [(0, "no classes"), (1, "1 class"), (2, "2 classes"), (12_345, "12,345 classes")]
)
def test_a_count_fits_its_word(items, words):
    assert count(items, "class") == words


def test_a_verb_that_follows_is_given():
    assert [count(items, "image is", "images are") for items in (1, 3)] == ["1 image is", "3 images are"]


@pytest.mark.parametrize(
    ("noun", "plural"),
    [("image", "images"), ("query", "queries"), ("batch", "batches"), ("box", "boxes"), ("test day", "test days")],
)
def test_plurals_are_regular(noun, plural):
    assert plural_of(noun) == plural
