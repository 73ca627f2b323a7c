"""The example of a batch larger than memory: within its budget, micro-batches, and the gradient of the whole batch."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from shadowmetric.app.models import build_embedder
from shadowmetric.batches.meter import held_bytes

EXAMPLE = Path(__file__).parents[2] / "examples" / "large_batch.py"
needs_proc = pytest.mark.skipif(held_bytes() is None, reason="memory is read from /proc")


@needs_proc
def test_the_peak_is_within_the_budget_and_near_the_prediction():
    command = [sys.executable, str(EXAMPLE), "--batch", "1024", "--size", "32", "--memory-budget", "1GB"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "within the budget of 1.00 GB" in said
    off = re.search(r"predicted \(([+-]\d+) %\)", said)
    assert off is not None
    assert abs(int(off[1])) <= 15
    apart = re.search(r"apart by (\S+) of the largest", said)
    assert apart is not None
    assert float(apart[1]) < 1e-10


@needs_proc
def test_a_smaller_budget_makes_smaller_micro_batches():
    example = runpy.run_path(str(EXAMPLE))
    embedder = build_embedder("small_cnn", dim=64, size=32, freeze_batch_norm=True).train()
    example["plan_for"](embedder, 256, 32, 10**12)  # libraries make their workspaces
    budgets = [round(((held_bytes() or 0) + more) / 0.95) for more in (40 * 10**6, 400 * 10**6)]
    tight, wide = (example["plan_for"](embedder, 1024, 32, budget) for budget in budgets)
    assert tight.micro_batch < wide.micro_batch
    assert tight.predicted <= tight.budget
    assert example["gradients_apart"](embedder, 16) < 1e-10
