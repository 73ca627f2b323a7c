"""What an index knows of its model survives JSON, and nonsense is refused in one sentence."""

import copy
import hashlib
import json

import pytest
from image_folders import HOSTILE, SHAPE

from shadowmetric.errors import Mistake
from shadowmetric.runtime.entries import About, about_from, key_of

ABOUT = About(4, "abc", SHAPE, ("../run", "/runs/run"), "/photos \udcff", {"loss": "shadow", "margin": "0.2"})


def test_a_key_is_made_of_the_path_alone():
    assert key_of("a/b.png") == hashlib.sha256(b"a/b.png").hexdigest()[:32]
    assert key_of("\udcff.png") == hashlib.sha256(b"\xff.png").hexdigest()[:32]
    assert len({key_of(name) for name in HOSTILE}) == len(HOSTILE)


def test_json_gives_back_what_was_written():
    assert about_from(json.loads(json.dumps(ABOUT.plain())), "x") == ABOUT


NONSENSE = [
    (("dim",), [None, 0, -3, "many", [], float("inf"), float("nan"), 1e999]),
    (("shape",), [None, [], {}, "8", {"size": 8}]),
    (("shape", "size"), [0, 9, -1, None, "x", float("inf")]),
    (("shape", "channels"), [0, 2, 4, None]),
    (("model",), [None, 3]),
    (("trained",), [None, [], "x", 3]),
]


@pytest.mark.parametrize(("place", "values"), NONSENSE)
def test_nonsense_is_refused(place, values):
    for value in values:
        found = copy.deepcopy(ABOUT.plain())
        inside = found
        for name in place[:-1]:
            inside = inside[name]
        inside[place[-1]] = value
        with pytest.raises(Mistake, match=r"x.index.* index the images again\."):
            about_from(found, "x.index")


@pytest.mark.parametrize("name", ABOUT.plain())
def test_nothing_may_be_missing(name):
    found = ABOUT.plain()
    del found[name]
    with pytest.raises(Mistake, match="does not say which model"):
        about_from(found, "x.index")


@pytest.mark.parametrize("found", [None, [], "x", 3, [1, 2]])
def test_what_is_no_object_is_refused(found):
    with pytest.raises(Mistake, match="does not say which model"):
        about_from(found, "x.index")
