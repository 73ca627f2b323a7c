"""A run that is killed at random moments and resumed ends with the very bits of one that was never stopped."""

import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from shadowmetric.app.training.runs.run import Run

SCRIPT = Path(__file__).with_name("forked_runs.py")
TIMES = {"seconds", "images_per_second", "validation_seconds"}


def trained(out, kills, seed=0):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(out), str(kills), str(seed)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 0 or kills == 0
    return Run(out)


def flat(found, name=""):
    """Return every value of nested lists and dictionaries by its path; times are left out."""
    if isinstance(found, dict):
        return {k: v for key, one in found.items() if key not in TIMES for k, v in flat(one, f"{name}/{key}").items()}
    if isinstance(found, list | tuple):
        return {k: v for place, one in enumerate(found) for k, v in flat(one, f"{name}/{place}").items()}
    return {name: found}


def same(first, second):
    first, second = flat(first), flat(second)
    assert first.keys() == second.keys()
    for name, value in first.items():
        other = second[name]
        assert torch.equal(value, other) if isinstance(value, torch.Tensor) else value == other, name


def test_killed_runs_end_with_the_same_bits(tmp_path):
    whole, killed = trained(tmp_path / "whole", 0), trained(tmp_path / "killed", 10, seed=torch.seed() % 2**31)
    same(load_file(whole.best_file), load_file(killed.best_file))
    same(
        torch.load(whole.state_file, weights_only=True),
        torch.load(killed.state_file, weights_only=True),
    )
    same(whole.journal(), killed.journal())
    scores, others = whole.scores(), killed.scores()
    assert scores.pop("train_seconds") > 0
    assert others.pop("train_seconds") > 0
    assert scores == others
