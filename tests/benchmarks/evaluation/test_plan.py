"""What a job of the evaluation's bench is, and which are skipped."""

import pytest

from benchmarks.evaluation.plan import EVALUATION, EvaluationJob, expected_seconds, skip_reason


def test_the_columns_are_the_job_its_figures_and_the_place():
    assert EVALUATION.columns == (
        *("contender", "rows", "dim", "classes", "measures", "seed", "queries"),
        *("retrieval_s", "silhouette_s", "total_s", "extrapolated", "peak_extra_mb"),
        *("recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "map_at_r", "silhouette"),
        *("reason", "version", "torch", "threads", "cpu", "date"),
    )


@pytest.mark.parametrize(
    ("contender", "measures", "queries", "extrapolated"),
    [
        ("peers", "recall-map", 100, True),
        ("peers", "recall-map silhouette", 299, True),
        ("peers", "recall-map", 300, False),
        ("peers", "recall-map", None, False),
        ("peers", "silhouette", 100, False),
        ("ours", "recall-map", 100, False),
    ],
)
def test_only_a_part_of_the_peers_search_is_extrapolated(contender, measures, queries, extrapolated):
    job = EvaluationJob(contender, 300, 8, 10, measures, queries=queries)
    assert job.extrapolated is extrapolated
    assert job.searched == min(queries or 300, 300)


def test_a_class_needs_two_rows():
    assert skip_reason(EvaluationJob("ours", 20, 8, 10)) is None
    reason = "19 rows are fewer than two for each of 10 classes"
    assert skip_reason(EvaluationJob("ours", 19, 8, 10)) == reason


@pytest.mark.parametrize("contender", ["ours", "peers"])
def test_more_work_is_expected_to_take_longer(contender):
    job = EvaluationJob(contender, 60_000, 64, 10)
    parts = [EvaluationJob(contender, 60_000, 64, 10, measures) for measures in ("recall-map", "silhouette")]
    assert expected_seconds(job) > max(map(expected_seconds, parts))
    assert expected_seconds(job) > expected_seconds(EvaluationJob(contender, 6_000, 64, 10))
    assert expected_seconds(EvaluationJob(contender, 6_000, 64, 10_000)) == 0.0


def test_a_part_of_the_queries_is_expected_to_take_less_and_many_neighbors_more():
    job = EvaluationJob("peers", 60_000, 64, 10)
    assert expected_seconds(EvaluationJob("peers", 60_000, 64, 10, queries=1000)) < expected_seconds(job)
    assert expected_seconds(EvaluationJob("peers", 60_000, 64, 10_000)) < expected_seconds(job)
