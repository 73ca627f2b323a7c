"""What goes out: numbers that JSON has, names that UTF-8 has, and no folder of this machine."""

import json

import pytest

from shadowmetric.app.serving.server.answers import answer, printable, without_folders
from shadowmetric.app.serving.server.searched import distinct_class_names
from shadowmetric.runtime.entries import Entry, Hit


def hit(similarity, path="a/b.png", label="a"):
    return Hit(Entry("0" * 32, path, label), similarity)


def test_classes_that_look_the_same_are_told_apart():
    names = ["caf\udce9", "caf\udce8", "caf\udce7", "tea"]
    found = distinct_class_names(dict(zip(names, (3, 2, 1, 4), strict=True)))
    first = next(iter(found))
    assert list(found) == [first, f"{first} (2)", f"{first} (3)", "tea"]
    assert [value for value in found.values()] == list(zip(names, (3, 2, 1, 4), strict=True))


def test_a_similarity_that_is_no_number_is_left_out_and_rounding_is_cut():
    found = answer([hit(1.0002), hit(float("nan")), hit(-1.3), hit(float("-inf"))], {"search": 0.0123})
    assert [one.similarity for one in found.hits] == [1.0, -1.0]
    assert found.milliseconds == {"search": 12.3}


def test_names_that_are_no_utf_8_can_be_sent():
    found = answer([hit(0.5, "a/\udcff\ud83d.png", "\udc80")], {}).hits[0]
    assert (found.path, found.label) == ("a/\ufffd\ufffd.png", "\ufffd")
    json.dumps(found.model_dump(), ensure_ascii=False).encode("utf-8")
    assert printable("Grünspecht 🐦") == "Grünspecht 🐦"


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("shadow", "shadow"),
        ("71.0 %", "71.0 %"),
        ("timm:tf_efficientnet_lite0", "timm:tf_efficientnet_lite0"),
        ("data/birds", "data/birds"),
        ("folder:/home/me/my birds", "folder:my birds"),
        ("folder:/home/me/my birds/", "folder:my birds"),
        ("/data", "data"),
        ("csv:~/lists/a.csv", "csv:a.csv"),
        ("npz:C:\\Users\\me\\a.npz", "npz:a.npz"),
        ("D:/x/y", "y"),
        ("two, /home/me/of them", "two, of them"),
    ],
)
def test_words_on_the_training_lose_their_folders(told, kept):
    assert without_folders(told) == kept
