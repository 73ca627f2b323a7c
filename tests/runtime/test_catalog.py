"""The table of thresholds: which row a rate takes, what is refused."""

from dataclasses import asdict, replace

import pytest

from shadowmetric.errors import Mistake
from shadowmetric.runtime.catalog import CatalogThreshold, catalog_threshold_from

TABLE = CatalogThreshold(
    "20 test images of 4 classes of x",
    (0.9, 0.8, 0.5),
    (0.1, 0.3, 1.0),
    (0.0, 0.25, 1.0),
    (0.5, 0.2, 0.0),
    (0.5, 0.75, 0.9),
    1,
)


@pytest.mark.parametrize(
    ("rate", "threshold"), [(0.1, 0.9), (0.29, 0.9), (0.3, 0.8), (0.99, 0.8), (1.0, 0.5), (None, 0.8)]
)
def test_a_rate_takes_the_lowest_threshold_that_keeps_to_it(rate, threshold):
    decision = TABLE.decide(0.85, rate)
    assert decision.threshold == threshold
    assert decision.in_catalog == (threshold <= 0.85)


def test_a_decision_has_the_errors_of_its_row_and_the_threshold_itself_is_in():
    decision = TABLE.decide(0.8, 0.3)
    assert (decision.in_catalog, decision.unknown_accept_rate, decision.known_reject_rate) == (True, 0.25, 0.2)
    assert not TABLE.decide(0.7999, 0.3).in_catalog


@pytest.mark.parametrize("rate", [0.0, 0.09, 1.1, -1.0, float("nan")])
def test_a_rate_that_was_not_measured_is_refused(rate):
    with pytest.raises(Mistake, match=r"20 test images of 4 classes of x\) can show 0\.1 to 1"):
        TABLE.decide(0.5, rate)


def test_it_is_read_as_it_was_written_and_refused_otherwise():
    assert catalog_threshold_from(asdict(TABLE)) == TABLE
    assert catalog_threshold_from(None) is None
    for wrong in (
        replace(TABLE, thresholds=(0.5, 0.8, 0.9)),
        replace(TABLE, passed=(0.3, 0.1, 1.0)),
        replace(TABLE, right=(0.5,)),
        replace(TABLE, balanced=3),
        replace(TABLE, thresholds=(), passed=(), unknown_accepts=(), known_rejects=(), right=(), balanced=0),
    ):
        with pytest.raises(ValueError, match=r"makes no sense|no such row"):
            catalog_threshold_from(asdict(wrong))
    with pytest.raises(KeyError):
        catalog_threshold_from({"images": "some"})
