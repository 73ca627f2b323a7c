"""Two processes train one run: they take turns in the batches, and one of them judges and writes."""

import json
import os
import subprocess
import sys
from pathlib import Path

from shadowmetric.training.run import Run

SCRIPT = """
import json, sys
from pathlib import Path
import torch
from shadowmetric.training import loop
from shadowmetric.training.settings import TrainSettings

torch.set_num_threads(1)
kept, seen, step = {}, [], loop.train_step

def noting(training, batch, watch, tally):
    kept["training"] = training
    seen.append(sorted(batch.numbers))
    step(training, batch, watch, tally)

loop.train_step = noting
settings = TrainSettings(loss="soft_triple", device="cpu", epochs=1, batches=3, batch=20, per_class=2, patience=0)
scores = loop.train(settings, Path(sys.argv[1]))
training = kept["training"]
rank = training.accelerator.process_index
found = {"centres": training.loss.centers.double().sum().item(), "batches": seen, "map": scores["map_at_r"]}
Path(f"{sys.argv[1]}-{rank}.json").write_text(json.dumps(found))
"""


def test_two_processes_train_one_run(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launch, str(script), str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = (json.loads(Path(tmp_path / f"run-{rank}.json").read_text()) for rank in (0, 1))
    assert first["centres"] == second["centres"]  # as if one process had seen both batches
    assert first["map"] == second["map"] == Run(tmp_path / "run").scores()["map_at_r"]
    assert len(first["batches"]) == len(second["batches"]) == 3
    assert all(mine not in second["batches"] for mine in first["batches"])
    assert len(Run(tmp_path / "run").journal()) == 1
