"""Intervals over seeds: Student's t as scipy has it."""

import numpy as np
import pytest
from scipy import stats

from shadowmetric.app.compare.seed_intervals import LEVEL, interval, student_quantile


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 9, 10, 99, 1000])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_the_quantile_is_that_of_scipy(level, degrees):
    assert student_quantile(level, degrees) == pytest.approx(stats.t.ppf((1 + level) / 2, degrees), rel=1e-10)


def test_the_interval_is_that_of_the_mean():
    values = [0.1, 0.25, 0.2, 0.4]
    found = interval(values)
    low, high = stats.t.interval(LEVEL, 3, np.mean(values), stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-10)
    assert (found.seeds, found.sign) == (4, 1 if low > 0 else 0)


def test_one_seed_has_no_interval():
    assert interval([0.5]) == (0.5, None, None, 1)
    assert interval([0.5]).sign == 0
