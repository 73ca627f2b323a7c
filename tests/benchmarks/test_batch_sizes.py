"""The study of batch sizes: every training once, and the table that its rows make."""

import sys

import numpy as np
import pytest
from torch import nn

from benchmarks.batch_sizes import __main__ as study
from shadowmetric.runtime.files import read_rows
from tools.pages.large_batch_tables import batch_sizes_table, cost, interval


@pytest.fixture
def features(tmp_path):
    """Rows around classes, in a subspace that a head can find."""
    draw = np.random.default_rng(0)
    labels = np.arange(120) // 6
    rows = draw.normal(size=(20, 12))[labels] * (np.arange(12) < 4) + draw.normal(size=(120, 12))
    file = tmp_path / "cub200-96.npz"
    own = {"train_features": rows[:90], "train_labels": labels[:90], "kept": np.arange(60), "held": np.arange(60, 90)}
    with file.open("wb") as stream:
        np.savez(stream, **own, test_features=rows[90:], test_labels=labels[90:])
    return file


def test_what_is_there_is_not_trained_again_and_the_table_shows_it(features, tmp_path, monkeypatch):
    out = tmp_path / "out.csv"
    monkeypatch.setattr(study, "STEPS", {64: 20, 512: 20, 0: 20})
    command = ["study", str(out), "--features", str(features), "--losses", "sup_con", "--seeds", "2"]
    monkeypatch.setattr(sys, "argv", command)
    study.main()
    rows = read_rows(out)
    assert len(rows) == 1 + 2 * 3 * 2  # the floor; seeds, batches, rates
    monkeypatch.setattr(nn, "Linear", None)
    study.main()
    assert read_rows(out) == rows
    table = batch_sizes_table(rows)
    assert [row[0] for row in table.rows] == ["CUB-200, features without a head", "CUB-200, `sup_con`"]
    assert "2 seeds" in table.caption


def test_the_interval_is_student_s():
    assert interval([1.0, 3.0]) == "+2.00 (−10.71 to +14.71)"
    assert interval([1.0]) == ""


def test_what_could_not_be_measured_says_why():
    assert cost({"reason": "cannot: needs about 13 GB"}) == "cannot: needs about 13 GB"
    assert cost({"reason": "", "peak_mb": "1753.5", "cpu_seconds": "3.45"}) == "3.5 s, 1.8 GB"
    assert cost(None) == ""
