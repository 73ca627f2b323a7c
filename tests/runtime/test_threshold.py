"""Decisions from a table, against a loop over its rows; nonsense in a file is refused."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shadowmetric.errors import Mistake
from shadowmetric.runtime.threshold import (
    Calibration,
    at_prior,
    calibration_from,
    cases,
    explanation,
    in_words,
    often,
    percent,
)

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
    assert TABLE.confidence_at(cosine) == confidence
    assert TABLE.decide(cosine).probability == pytest.approx(confidence)
    assert TABLE.decide(cosine, 0.5).probability == pytest.approx(confidence)


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
    confidence = confidence_of(table, cosine)
    found = table.decide(cosine, rate)
    assert (found.threshold, found.false_accept_rate, found.true_accept_rate) == (threshold, far, tar)
    assert found.same == (cosine >= threshold)
    assert found.probability == pytest.approx(confidence)
    assert found.false_accept_rate <= rate


def confidence_of(table, cosine):
    """Return the share in the last row that is not above a cosine, by a loop."""
    confidence = table.confidence[0]
    for other, share in zip(table.cosines, table.confidence, strict=True):
        if other <= cosine:
            confidence = share
    return confidence


@given(tables(), st.floats(-1, 1), st.floats(0.001, 0.999))
def test_decision_and_probability_never_disagree(columns, cosine, prior):
    table = Calibration("f", "p", 3, 1000, *columns)
    confidence = confidence_of(table, cosine)
    same = confidence * prior
    probability = same / (same + (1 - confidence) * (1 - prior))
    found = table.decide(cosine, prior=prior)
    assert found.probability == pytest.approx(probability)
    assert found.same == (found.probability >= 0.5)
    verdict, words = in_words(found)
    number = int(re.search(r"in (?:fewer than )?(\d+)(?: or more)? of 100 cases", words)[1])
    assert (verdict == "the same") == (number >= 50)
    if found.threshold is None:
        assert max(at_prior(share, prior) for share in table.confidence) < 0.5
        assert (found.false_accept_rate, found.true_accept_rate) == (0.0, 0.0)
    else:
        place = table.cosines.index(found.threshold)
        assert (found.false_accept_rate, found.true_accept_rate) == (columns[1][place], columns[2][place])
        assert at_prior(table.confidence[place], prior) >= 0.5
        assert place == 0 or at_prior(table.confidence[place - 1], prior) < 0.5
        assert place == 0 or found.same == (cosine >= found.threshold)


@pytest.mark.parametrize(("prior", "probability"), [(0.5, 0.9), (0.01, 1 / 12), (0.9, 81 / 82)])
def test_a_prior_moves_the_probability_by_bayes(prior, probability):
    assert TABLE.decide(0.8, prior=prior).probability == pytest.approx(probability)


@pytest.mark.parametrize("prior", [0.0, 1.0, -1.0, 2.0, float("nan")])
def test_a_prior_that_is_none_is_refused(prior):
    with pytest.raises(Mistake, match=r"it is the share of your pairs that show the same, such as 0\.1\."):
        TABLE.decide(0.5, prior=prior)


def test_what_a_clerk_reads():
    assert in_words(TABLE.decide(0.8)) == [
        "the same",
        "Pairs as alike as these show the same in 90 of 100 cases, if 50 in 100 pairs that you compare do "
        "(--prior 0.5).",
    ]
    assert in_words(TABLE.decide(0.8, prior=0.001))[0] == "different"
    assert "if 1 in 1,000 pairs" in in_words(TABLE.decide(0.8, prior=0.001))[1]


def test_a_rate_that_decides_otherwise_says_so():
    strict = TABLE.decide(0.5, 0.01)
    assert (strict.same, in_words(strict, 0.01)[2:]) == (False, ["--false-accept-rate 0.01 asks for more than that."])
    lenient = TABLE.decide(0.2, 0.5)
    assert (lenient.same, in_words(lenient, 0.5)[2:]) == (True, ["--false-accept-rate 0.5 is content with that."])
    assert in_words(TABLE.decide(0.95, 0.01), 0.01)[2:] == []


def test_what_a_decision_rests_on():
    assert explanation(TABLE.decide(0.8), TABLE) == [
        "The cosine is 0.800; from 0.400 on images are called the same, where it is as likely as not.",
        "As alike are 6 % of the pairs of two classes, which are taken for one, and 80 % of the pairs of one class.",
        "Measured on 5 pairs of one class and 100 of two: 4 images.",
    ]
    assert (
        "from 0.700 on images are called the same, as --false-accept-rate 0.01 asks."
        in explanation(TABLE.decide(0.8, 0.01), TABLE, 0.01)[0]
    )
    assert "none would be enough" in explanation(TABLE.decide(0.95, prior=1e-4), TABLE)[0]


@pytest.mark.parametrize(
    ("probability", "words"),
    [
        (0.0, "fewer than 1"),
        (0.0099, "fewer than 1"),
        (0.01, "1"),
        (0.4999, "49"),
        (0.5, "50"),
        (0.989, "98"),
        (0.99, "99 or more"),
        (1.0, "99 or more"),
    ],
)
def test_cases_of_a_hundred_are_never_rounded_over_one_half(probability, words):
    assert cases(probability) == words


@pytest.mark.parametrize(("share", "words"), [(0.5, "50 in 100"), (0.015, "1.5 in 100"), (0.0005, "1 in 2,000")])
def test_shares_as_people_say_them(share, words):
    assert often(share) == words


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "0 %"),
        (0.00123, "0.12 %"),
        (0.05, "5 %"),
        (0.5, "50 %"),
        (0.985, "98 %"),
        (0.9951, "99.51 %"),
        (1.0, "100 %"),
    ],
)
def test_shares_have_the_digits_that_count(share, words):
    assert percent(share) == words


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
