"""Costs: every piece has one, and a run that was planned is the same run, bit for bit."""

import json
import random

import numpy as np
import pytest
import torch

from shadowmetric.app.training.loop import train
from shadowmetric.app.training.planning.costs import measure_costs, undisturbed
from shadowmetric.app.training.planning.dry_run import ready
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.app.training.runs.tensor_files import load_tensors
from shadowmetric.app.training.show import Silent

pytestmark = pytest.mark.usefixtures("one_thread")

QUICK = TrainSettings(
    data="digits",
    loss="shadow",
    device="cpu",
    epochs=1,
    batches=4,
    batch=20,
    per_class=2,
    patience=0,
    augment="shift",
    cross_batch_memory=40,
)


class Reading(Silent):
    """Wants a plan, and remembers what it was told."""

    def __init__(self):
        self.told = []

    def wants_plan(self):
        return True

    def notes(self, sentences):
        self.told += sentences


def test_a_planned_run_is_the_same_run(tmp_path):
    show = Reading()
    train(QUICK, tmp_path / "planned", show=show)
    train(QUICK, tmp_path / "plain")
    planned, plain = (load_tensors(Run(tmp_path / name).best_file) for name in ("planned", "plain"))
    assert all(torch.equal(planned[name], plain[name]) for name in plain)
    losses = [[line["loss"] for line in Run(tmp_path / name).journal()] for name in ("planned", "plain")]
    assert losses[0] == losses[1]
    assert "Plan" in show.told
    assert show.told[-1].startswith("Planned ")
    record = json.loads(Run(tmp_path / "planned").plan_file.read_text())
    assert record["measured"]["epochs"] == 1
    assert record["planned"]["expected_seconds"] > 0


def test_nothing_that_a_step_changes_stays():
    training = ready(QUICK, Silent())
    states = {name: value.clone() for name, value in training.bare_embedder.state_dict().items()}
    remembered = {name: value.clone() for name, value in training.loss.state_dict().items()}
    drawn = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state())
    costs = measure_costs(training)
    assert all(torch.equal(training.bare_embedder.state_dict()[name], value) for name, value in states.items())
    assert all(torch.equal(training.loss.state_dict()[name], value) for name, value in remembered.items())
    assert all(parameter.grad is None for parameter in training.bare_embedder.parameters())
    assert (random.getstate(), np.random.get_state()[1].tolist()) == drawn[:2]
    assert torch.equal(torch.get_rng_state(), drawn[2])
    assert (training.sampler.epoch, training.sampler.position) == (0, 0)
    assert min(costs.step, costs.embed, costs.scores[0], costs.epoch_scores[0]) > 0
    assert costs.read == 0  # digits are in memory


def test_what_fails_meanwhile_is_put_back_too():
    training = ready(QUICK, Silent())
    buffer = next(training.bare_embedder.buffers())
    before = buffer.clone()

    def fail():
        with undisturbed(training):
            buffer.add_(1)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.equal(buffer, before)
