"""One rule for the epoch of convergence and for early stopping, against the loop that states it."""

import math

import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from shadowmetric.evaluation.plateau import convergence_epoch, has_plateaued

RECALLS = st.lists(
    st.one_of(st.floats(0, 1), st.sampled_from([0.5, 0.503, 0.505, 0.51, 0.75])), min_size=1, max_size=12
)
TOLERANCE = st.sampled_from([0.0, 0.005, 0.25, 2.0])


@given(RECALLS, TOLERANCE)
def test_the_epoch_is_the_loop_s(recalls, tolerance):
    assert convergence_epoch(recalls, tolerance) == reference.convergence_epoch(recalls, tolerance)


@given(RECALLS, st.integers(1, 14), TOLERANCE)
def test_a_run_stops_when_the_last_epochs_brought_less_than_the_tolerance(recalls, patience, tolerance):
    before, last = recalls[:-patience], recalls[-patience:]
    expected = bool(before) and max(last) - max(before) < tolerance
    assert has_plateaued(recalls, patience, tolerance) == expected


@given(RECALLS, st.integers(1, 4))
def test_stopping_early_changes_the_epoch_only_if_more_was_to_come(recalls, patience):
    stop = next((n for n in range(1, len(recalls) + 1) if has_plateaued(recalls[:n], patience)), len(recalls))
    best = max(recalls[:stop])
    if max(recalls) - best == 0:
        assert convergence_epoch(recalls) == convergence_epoch(recalls[:stop])


@pytest.mark.parametrize(
    ("recalls", "epoch"),
    [
        ([0.3], 1),
        ([0.5, 0.4, 0.3], 1),
        ([0.1, 0.2, 0.3], 3),
        ([0.1, 0.6, 0.604, 0.603], 2),
        ([0.1, 0.6, 0.604, 0.608], 3),  # small steps that add up to more than the tolerance
        ([0.6, 0.1, 0.1, 0.9], 4),  # a late rise
        ([0.0, 0.25, 0.5], 3),
    ],
)
def test_examples(recalls, epoch):
    assert convergence_epoch(recalls) == epoch


def test_a_gain_of_exactly_the_tolerance_is_a_gain():
    assert convergence_epoch([0.25, 0.5], 0.25) == 2
    assert not has_plateaued([0.25, 0.5], 1, 0.25)
    assert has_plateaued([0.25, 0.5], 1, 0.26)


def test_nothing_has_plateaued_before_there_is_anything_to_compare():
    assert not has_plateaued([], 3)
    assert not has_plateaued([0.5, 0.5, 0.5], 3)
    assert has_plateaued([0.5, 0.5, 0.5, 0.5], 3)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: convergence_epoch([]), "recalls is empty"),
        (lambda: convergence_epoch([0.1, math.nan]), "the recall of epoch 2 is nan"),
        (lambda: has_plateaued([math.inf], 1), "the recall of epoch 1 is inf"),
        (lambda: convergence_epoch([0.1], -0.1), "tolerance is -0.1"),
        (lambda: convergence_epoch([0.1], math.nan), "tolerance is nan"),
        (lambda: has_plateaued([0.1], 0), "patience is 0"),
        (lambda: has_plateaued([0.1], True), "patience is True"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
