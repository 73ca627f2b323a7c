"""Tests over seeds: p by scipy, Holm by hand, equivalence by scipy's one-sided tests."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from shadowmetric.app.compare.seed_intervals import interval, interval_at
from shadowmetric.app.compare.seed_tests import equivalence, holm, holm_intervals, p_value

SAMPLES = st.lists(st.integers(-50, 50).map(lambda number: number / 8), min_size=2, max_size=10).filter(
    lambda values: len(set(values)) > 1
)


@given(SAMPLES, st.sampled_from([0.0, -0.5, 3.0]))
def test_p_is_that_of_scipy(values, value):
    assert p_value(values, value) == pytest.approx(stats.ttest_1samp(values, value).pvalue, abs=1e-12)


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.04], [0.04]),
        ([0.5, 0.6], [1.0, 1.0]),
        ([0.03, 0.001, 0.02], [0.04, 0.003, 0.04]),
        ([], []),
    ],
)
def test_holm_by_hand(p_values, adjusted):
    assert holm(p_values) == pytest.approx(adjusted)


@given(st.lists(SAMPLES, min_size=1, max_size=6))
def test_an_interval_excludes_0_where_holms_p_is_below_five_per_cent(samples):
    adjusted = holm([p_value(values) or 0.0 for values in samples])
    for values, corrected, p in zip(samples, holm_intervals(samples), adjusted, strict=True):
        if abs(p - 0.05) > 1e-9:
            assert (corrected.sign != 0) == (p < 0.05)
        plain = interval(values)
        assert corrected.low <= plain.low + 1e-12
        assert corrected.high >= plain.high - 1e-12


def test_levels_of_the_intervals_by_hand():
    clear, less, none = [1.0, 1.1, 0.9, 1.0], [1.0, 2.0, 1.0, 2.0], [1.0, -1.0, 2.0, -2.0]
    assert holm_intervals([none, clear, less]) == [
        interval_at(none, 0.95),
        interval_at(clear, 1 - 0.05 / 3),
        interval_at(less, 1 - 0.05 / 2),
    ]
    assert holm_intervals([none, none]) == [interval_at(none, 1 - 0.05 / 2)] * 2  # the first holds 0: nothing is freed
    assert holm_intervals([[0.5], clear])[1] == interval(clear)  # a single seed makes no statement


@given(SAMPLES, st.sampled_from([0.25, 1.0, 10.0]))
def test_equivalence_is_two_one_sided_tests(values, bound):
    found = equivalence(values, bound)
    above = stats.ttest_1samp(values, -bound, alternative="greater").pvalue
    below = stats.ttest_1samp(values, bound, alternative="less").pvalue
    assert found.p == pytest.approx(max(above, below), abs=1e-12)
    if abs(found.p - 0.05) > 1e-9:
        assert found.holds == (-bound < found.low and found.high < bound)


def test_seeds_that_say_the_same():
    assert p_value([0.0, 0.0]) == 1.0
    assert p_value([0.1, 0.1, 0.1]) == 0.0
    assert equivalence([0.1, 0.1, 0.1], 0.5).holds
    assert not equivalence([0.6, 0.6, 0.6], 0.5).holds
    assert not equivalence([-0.6, -0.6, -0.6], 0.5).holds
    assert equivalence([0.0], 0.5) == (None, None, None, 0.5)
    assert p_value([0.3]) is None
    assert np.isclose(equivalence([0.0, 0.0, 0.0], 0.5).p or 0.0, 0.0)


def test_a_bound_of_nothing_is_refused():
    with pytest.raises(ValueError, match=r"bound is 0\.0; it must be above 0"):
        equivalence([0.0, 0.1], 0.0)
