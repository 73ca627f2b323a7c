"""A job's record: seconds that add up, figures, and failures that are reasons."""

import math
import sys
from collections import Counter

import pytest
import torch

from benchmarks.evaluation import worker as evaluation_worker
from benchmarks.evaluation.contenders import CONTENDERS
from benchmarks.evaluation.plan import EVALUATION, FIGURES, EvaluationJob
from benchmarks.evaluation.worker import Stopwatch, evaluate_contender, inputs, record
from benchmarks.run import run_job


class Clock:
    """A clock that is told what to say."""

    def __init__(self, monkeypatch, *moments):
        self.moments = iter(moments)
        monkeypatch.setattr(evaluation_worker.time, "perf_counter", lambda: next(self.moments))


def test_a_real_process_answers_with_every_figure():
    said = run_job(EVALUATION, EvaluationJob("ours", 60, 8, 4), timeout=240.0)
    assert said["total_s"] == pytest.approx(said["retrieval_s"] + said["silhouette_s"])
    assert all(math.isfinite(said[name]) for name in FIGURES)
    assert said["peak_extra_mb"] == "unknown" or said["peak_extra_mb"] >= 0
    assert said["version"].startswith("shadowmetric ")
    assert set(said) < set(EVALUATION.columns)


def test_the_record_of_the_peers_names_both_versions():
    said = record(EvaluationJob("peers", 60, 8, 4, queries=20))
    assert said["extrapolated"] is True
    assert [name.split()[0] for name in str(said["version"]).split(", ")] == ["faiss-cpu", "scikit-learn"]


@pytest.mark.parametrize(
    ("missing", "measures", "reason"),
    [
        ("faiss", "recall-map", "faiss-cpu cannot be imported: "),
        ("faiss", "recall-map silhouette", "faiss-cpu or scikit-learn cannot be imported: "),
        ("sklearn.metrics", "silhouette", "scikit-learn cannot be imported: "),
    ],
)
def test_a_peer_that_is_not_installed_is_a_reason(monkeypatch, missing, measures, reason):
    monkeypatch.setitem(sys.modules, missing, None)
    said = record(EvaluationJob("peers", 40, 8, 4, measures))
    assert set(said) == {"reason"}
    assert str(said["reason"]).startswith(reason)
    assert missing in str(said["reason"])


def test_silhouette_alone_does_without_faiss(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert "reason" not in record(EvaluationJob("peers", 40, 8, 4, "silhouette"))


def test_the_first_stage_begins_with_the_watch_and_each_lasts_until_the_next(monkeypatch):
    Clock(monkeypatch, 10.0, 13.0, 18.0)
    watch = Stopwatch()
    for stage in ("retrieval", "retrieval", "silhouette", "silhouette"):
        watch.note(stage, 0.5)
    assert watch.stop() == {"retrieval": 3.0, "silhouette": 5.0}


@pytest.mark.parametrize(("queries", "retrieval"), [(None, 3.0), (10, 12.0)])
def test_only_the_time_of_the_search_is_scaled_up(monkeypatch, queries, retrieval):
    def peers(job, embeddings, labels, note):
        note("retrieval", 0.0)
        note("silhouette", 0.0)
        return {}

    Clock(monkeypatch, 10.0, 13.0, 18.0)
    monkeypatch.setitem(CONTENDERS, "peers", peers)
    job = EvaluationJob("peers", 40, 8, 4, queries=queries)
    assert evaluate_contender(job, torch.zeros(40, 8), torch.zeros(40, dtype=torch.int64))[1] == {
        "retrieval": retrieval,
        "silhouette": 5.0,
    }


def test_inputs_repeat_with_the_seed_and_classes_are_equally_large_and_shuffled():
    job = EvaluationJob("ours", 62, 8, 10, seed=3)
    (embeddings, labels), (again, same) = inputs(job), inputs(job)
    assert torch.equal(embeddings, again)
    assert torch.equal(labels, same)
    assert sorted(Counter(labels.tolist()).values()) == [6] * 8 + [7] * 2
    assert labels.tolist() != sorted(labels.tolist())
    assert labels.tolist() != [row % 10 for row in range(62)]
    assert not torch.equal(embeddings, inputs(EvaluationJob("ours", 62, 8, 10, seed=4))[0])
