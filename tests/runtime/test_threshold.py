"""Decisions from a table, against a loop over its rows; nonsense in a file is refused."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shadowmetric.errors import Mistake
from shadowmetric.runtime.threshold import Calibration, calibration_from

TABLE = Calibration(
    "abc",
    "4 images",
    5,
    100,
    (-1.0, 0.1, 0.4, 0.7, 0.9),
    (1.0, 0.5, 0.06, 0.01, 0.0),
    (1.0, 0.9, 0.8, 0.6, 0.2),
    (0.1, 0.3, 0.7, 0.9, 0.99),
)


@pytest.mark.parametrize(
    ("rate", "threshold", "far", "tar"),
    [
        (1.0, -1.0, 1.0, 1.0),
        (0.99, 0.1, 0.5, 0.9),
        (0.5, 0.1, 0.5, 0.9),
        (0.06, 0.4, 0.06, 0.8),
        (0.059, 0.7, 0.01, 0.6),
        (0.01, 0.7, 0.01, 0.6),
    ],
)
def test_the_threshold_is_the_smallest_cosine_with_few_enough_false_accepts(rate, threshold, far, tar):
    found = TABLE.decide(0.3, rate)
    assert (found.threshold, found.false_accept_rate, found.true_accept_rate) == (threshold, far, tar)
    assert found.same is (threshold <= 0.3)
    assert found.cosine == 0.3


@pytest.mark.parametrize(
    ("cosine", "confidence"),
    [(-1.0, 0.1), (0.0999, 0.1), (0.1, 0.3), (0.5, 0.7), (0.89, 0.9), (0.9, 0.99), (1.0, 0.99), (-1.5, 0.1)],
)
def test_confidence_is_that_of_the_last_row_not_above_the_cosine(cosine, confidence):
    assert TABLE.decide(cosine, 0.5).confidence == confidence


def test_a_cosine_at_the_threshold_is_the_same():
    assert TABLE.decide(0.4, 0.06).same
    assert not TABLE.decide(0.3999999, 0.06).same


@st.composite
def tables(draw):
    count = draw(st.integers(1, 12))
    numbers = st.floats(0, 1, allow_nan=False)
    cosines = sorted(draw(st.lists(st.floats(-1, 1), min_size=count, max_size=count, unique=True)))
    falls = sorted(draw(st.lists(numbers, min_size=count, max_size=count)), reverse=True)
    finds = sorted(draw(st.lists(numbers, min_size=count, max_size=count)), reverse=True)
    rises = sorted(draw(st.lists(numbers, min_size=count, max_size=count)))
    return tuple(cosines), (*falls[:-1], 0.0), tuple(finds), tuple(rises)


@given(tables(), st.floats(-1, 1), st.floats(0.001, 1))
def test_decisions_equal_a_loop_over_the_rows(columns, cosine, rate):
    table = Calibration("f", "p", 3, 1000, *columns)
    rows = zip(table.cosines, table.false_accepts, table.true_accepts, strict=True)
    threshold, far, tar = next(row for row in rows if row[1] <= rate)
    confidence = table.confidence[0]
    for other, share in zip(table.cosines, table.confidence, strict=True):
        if other <= cosine:
            confidence = share
    found = table.decide(cosine, rate)
    assert (found.threshold, found.false_accept_rate, found.true_accept_rate) == (threshold, far, tar)
    assert (found.same, found.confidence) == (cosine >= threshold, confidence)
    assert found.false_accept_rate <= rate


@pytest.mark.parametrize("rate", [0.0, -1.0, 0.0099, 1.01, float("nan"), float("inf")])
def test_a_rate_that_so_many_pairs_cannot_show_is_refused(rate):
    with pytest.raises(Mistake, match=r"100 pairs of two classes were measured, so give 0\.01 to 1\."):
        TABLE.decide(0.5, rate)
    assert TABLE.least_rate() == 0.01


@pytest.mark.parametrize("pairs", [1, 2, 3, 4, 6, 7, 11, 29, 64, 333, 123_456, 6_000_000])
def test_the_rate_that_a_refusal_names_is_accepted(pairs):
    table = Calibration("f", "p", 3, pairs, (-1.0, 0.5), (1.0, 0.0), (1.0, 0.5), (0.1, 0.9))
    with pytest.raises(Mistake) as refused:
        table.decide(0.5, 0.0)
    named = float(re.search(r"so give (\S+) to 1\.", str(refused.value))[1])
    assert table.decide(0.5, named).false_accept_rate <= named
    assert named <= 2 * table.least_rate()


def test_json_gives_back_what_was_written():
    assert calibration_from(json.loads(json.dumps(TABLE.plain())), "x") == TABLE


NONSENSE = {
    "cosines": [None, 3, "abc", [], [0.1], ["a"] * 5, [0.9, 0.1, 0.4, 0.7, -1.0], [None] * 5],
    "false_accepts": [None, [1.0, 0.5], [[]] * 5],
    "impostor_pairs": [0, -1, None, "x", float("inf"), float("nan")],
    "genuine_pairs": [None, "x", float("inf")],
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_refused(name):
    for value in NONSENSE[name]:
        with pytest.raises(Mistake, match=r"^x\.json .*; remove it, and it is measured again\.$"):
            calibration_from(TABLE.plain() | {name: value}, "x.json")


def test_a_table_with_another_figure_is_refused():
    found = TABLE.plain()
    for change in ({"genuine_pairs": TABLE.genuine_pairs + 1}, {"confidence": [0.0, *TABLE.confidence[1:]]}):
        with pytest.raises(Mistake, match=r"x\.json is not as it was written; remove it"):
            calibration_from(found | change, "x.json")


@pytest.mark.parametrize("found", [None, [], {}, "x", 3, [TABLE.plain()]])
def test_what_is_no_calibration_is_refused(found):
    with pytest.raises(Mistake, match=r"x\.json is no calibration"):
        calibration_from(found, "x.json")
