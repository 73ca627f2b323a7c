"""Trains a small run in child processes that are killed at random moments, and goes on until it ends.

    python forked_runs.py OUT KILLS SEED

Prints how many children were killed. A fork instead of a new interpreter makes
an attempt cheap: the libraries are imported once.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch

from shadowmetric.app.training import loop
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.app.training.steps import step

SETTINGS = TrainSettings(
    data="digits",
    loss="soft_triple",
    epochs=2,
    batches=10,
    batch=24,
    per_class=3,
    save_every=0.0,
    device="cpu",
    patience=0,
    augment="shift",
)
loss_of = step.loss_of


def drawing_loss_of(*given):
    """Return the loss times random numbers of all three generators, whose states a resume must bring back."""
    return loss_of(*given) * (torch.rand(()) + np.random.rand() + random.random())


def attempt(out: Path) -> None:
    torch.set_num_threads(1)
    step.loss_of = drawing_loss_of
    loop.train(SETTINGS, out, resume=Run(out).settings_file.exists())


def main(out: Path, kills: int, seed: int) -> None:
    moments = random.Random(seed)
    killed = 0
    while Run(out).scores() is None:
        child = os.fork()
        if child == 0:
            attempt(out)
            os._exit(0)
        if killed < kills:
            time.sleep(moments.uniform(0.02, 1.2))
            os.kill(child, signal.SIGKILL)
            killed += 1
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    print(killed)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
