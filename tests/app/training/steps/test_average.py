"""Averaged weights: their values, that training goes on with its own, and that a run resumes with the same bits."""

import os
import signal

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from shadowmetric.app.training.loop import train
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.app.training.show import Silent
from shadowmetric.app.training.steps.average import DECAY, WeightAverage
from shadowmetric.errors import Interrupted

pytestmark = pytest.mark.usefixtures("one_thread")
QUICK = {"data": "digits", "device": "cpu", "epochs": 2, "batches": 4, "batch": 20, "per_class": 2, "patience": 0}


@pytest.mark.parametrize("kind", ["ema", "tail"])
def test_averages_are_those_of_a_plain_loop(kind):
    steps = 12
    module = nn.Linear(3, 2)
    module.bias.requires_grad_(False)
    average = WeightAverage(module, kind, steps)
    random = torch.Generator().manual_seed(0)
    expected, tail = module.weight.detach().clone(), []
    for step in range(1, steps + 1):
        with torch.no_grad():
            module.weight.copy_(torch.randn(2, 3, generator=random))
        average.add(step)
        if kind == "ema":
            decay = min(DECAY, (1 + step) / (10 + step))
            expected = decay * expected + (1 - decay) * module.weight.detach()
        else:
            tail = [*tail, module.weight.detach().clone()] if step > steps // 2 else [module.weight.detach().clone()]
            tail = tail[-(step - steps // 2) :] if step > steps // 2 else tail
            expected = torch.stack(tail).mean(0)
    torch.testing.assert_close(average.values["weight"], expected)
    assert "bias" not in average.values
    own = module.weight.detach().clone()
    with average.in_place():
        torch.testing.assert_close(module.weight, expected)
    assert torch.equal(module.weight, own)


@pytest.mark.parametrize("kind", ["ema", "tail"])
def test_what_is_kept_is_the_average_and_a_resume_has_it(tmp_path, kind):
    settings = TrainSettings(**QUICK, average=kind)
    train(settings, tmp_path / "whole")
    train(TrainSettings(**QUICK, average="none"), tmp_path / "plain")

    class Stopping(Silent):
        count = 0

        def wants(self):
            return True

        def moment(self, moment):
            self.count += 1
            if self.count == 6:
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        train(settings, tmp_path / "run", show=Stopping())
    train(settings, tmp_path / "run", resume=True)
    whole, resumed, plain = (load_file(Run(tmp_path / name).best_file) for name in ("whole", "run", "plain"))
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())
    assert not torch.equal(whole["head.weight"], plain["head.weight"])
