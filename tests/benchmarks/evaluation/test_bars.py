"""Bars against rows whose verdict can be read off."""

import math

import pytest

from benchmarks.evaluation.bars import largest_difference, verdicts

OURS = {"total_s": 5.0, "peak_extra_mb": 100.0, "extrapolated": False, "recall_at_1": 0.5, "silhouette": 0.25}
PEERS = {"total_s": 10.0, "peak_extra_mb": 900.0, "extrapolated": False, "recall_at_1": 0.5, "silhouette": 0.25}


def mets(ours, peers):
    return [verdict.met for verdict in verdicts(OURS | ours, PEERS | peers)]


@pytest.mark.parametrize(
    ("ours", "peers", "met"),
    [
        ({}, {}, [True, True, True]),
        ({"total_s": 10.0}, {}, [True, True, True]),
        ({"total_s": 10.1}, {}, [False, True, True]),
        ({"peak_extra_mb": 512.1}, {}, [True, False, True]),
        ({"peak_extra_mb": "unknown"}, {}, [True, None, True]),
        ({"silhouette": 0.250002}, {}, [True, True, False]),
        ({"silhouette": math.nan}, {}, [True, True, False]),
        ({"silhouette": math.nan}, {"silhouette": math.nan}, [True, True, True]),
        ({}, {"total_s": None, "recall_at_1": None, "silhouette": None}, [None, True, None]),
    ],
)
def test_a_bar_is_met_or_not_or_unknown(ours, peers, met):
    assert mets(ours, peers) == met


def test_without_peers_only_memory_is_judged():
    assert [verdict.met for verdict in verdicts(OURS, {})] == [None, True, None]


def test_the_figure_that_differs_most_is_named():
    name, difference = largest_difference(OURS | {"recall_at_1": 0.625}, PEERS | {"silhouette": 0.3})
    assert (name, difference) == ("recall_at_1", 0.125)
    assert verdicts(OURS, PEERS | {"recall_at_1": 0.625})[2].bar == "largest difference (recall_at_1)"


def test_a_time_that_was_scaled_up_says_so():
    assert verdicts(OURS, PEERS | {"extrapolated": True})[0].bar == "time, ours / peers, extrapolated"
