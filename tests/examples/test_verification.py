"""The example of verification, at a small size: no class has two roles, and thresholds do about what they promise."""

import runpy
from pathlib import Path

import numpy as np

EXAMPLE = Path(__file__).parents[2] / "examples" / "verification.py"


def test_thresholds_of_some_new_classes_hold_for_others(tmp_path, capsys):
    found = runpy.run_path(str(EXAMPLE))["main"](["--marks", "48", "--epochs", "6", "--out", str(tmp_path)])
    thresholds = [row.threshold for row in found.rows]
    assert thresholds == sorted(thresholds)
    for row in found.rows:
        assert row.false_accepts < 4 * row.wanted + 0.005
        assert row.true_accepts > 2 * row.false_accepts
    assert found.sure > 0.7
    said = capsys.readouterr().out
    assert "24 classes train, 12 choose the threshold, 12 check it." in said
    assert f"threshold {thresholds[0]:.3f}" in said
    with np.load(tmp_path / "images.npz") as parts:
        learn, choose = set(parts["train_labels"].tolist()), set(parts["test_labels"].tolist())
    assert len(learn) == 24
    assert len(choose) == 12
    assert not learn & choose


def test_pairs_are_counted_once_each_and_none_with_itself():
    rows = np.eye(4, dtype=np.float32)
    same, other = runpy.run_path(str(EXAMPLE))["pairs"](rows, np.array([0, 0, 1, 1]))
    assert same.tolist() == [0, 0]
    assert other.tolist() == [0] * 4
