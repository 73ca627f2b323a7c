"""A job's record: figures that are figures, and failures that are reasons."""

import json
import math
import sys

import pytest
import torch

from benchmarks import answer
from benchmarks.losses import worker
from benchmarks.losses.contenders import CONTENDERS
from benchmarks.losses.plan import Job


def test_the_json_line_of_ours_has_finite_positive_figures(monkeypatch, capsys):
    job = {"contender": "ours", "batch": 32, "dim": 16, "repeats": 2}
    monkeypatch.setattr(sys, "argv", ["worker", json.dumps(job)])
    monkeypatch.setattr(answer, "offer_this_process_first", lambda: None)
    answer.answer(Job, worker.record)
    (line,) = capsys.readouterr().out.splitlines()
    record = json.loads(line)
    for figure in ("forward_ms", "backward_ms", "total_ms", "product_ms", "ratio_to_product", "kept_bytes"):
        assert math.isfinite(record[figure])
        assert record[figure] > 0
    assert record["peak_extra_mb"] == "unknown" or record["peak_extra_mb"] >= 0
    assert record["repeats"] == 2


def test_the_bare_product_has_no_backward():
    record = worker.record(Job("bare-product", 32, 16, repeats=1))
    assert record["backward_ms"] is None
    assert record["kept_bytes"] is None


def test_a_contender_that_raises_is_a_reason_of_one_line(monkeypatch):
    def broken(embeddings, labels):
        raise RuntimeError("no luck today\nand much more to say")

    monkeypatch.setitem(CONTENDERS, "broken", broken)
    assert worker.record(Job("broken", 32, 16)) == {"reason": "RuntimeError: no luck today"}


def test_a_peer_that_is_not_installed_is_a_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytorch_metric_learning", None)
    monkeypatch.setitem(sys.modules, "pytorch_metric_learning.losses", None)
    reason = worker.record(Job("pml", 32, 16))["reason"]
    assert str(reason).startswith("pytorch-metric-learning cannot be imported: ")


@pytest.mark.parametrize("clustered", [False, True])
def test_inputs_repeat_with_the_seed_and_have_whole_classes(clustered):
    job = Job("ours", 12, 40, per_class=5, seed=3, clustered=clustered)
    (embeddings, labels), (again, _) = worker.inputs(job), worker.inputs(job)
    assert torch.equal(embeddings, again)
    assert labels.tolist() == [0] * 5 + [1] * 5 + [2] * 2
    assert embeddings.requires_grad


def test_clustered_rows_are_closer_to_their_class_than_to_others():
    embeddings, labels = worker.inputs(Job("ours", 60, 64, clustered=True))
    distance = torch.cdist(embeddings, embeddings).detach()
    same = (labels[:, None] == labels) & ~torch.eye(60, dtype=torch.bool)
    assert distance[same].mean() < 0.8 * distance[labels[:, None] != labels].mean()
