"""Training with the hardest negatives of the whole set: from the second epoch on, and the same bits after a stop."""

import os
import signal
from dataclasses import replace

import pytest
import torch

from shadowmetric.app.training.loop import train
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings, check_settings
from shadowmetric.app.training.show import Silent
from shadowmetric.errors import Interrupted, Mistake

pytestmark = pytest.mark.usefixtures("one_thread")

MINED = TrainSettings(
    data="digits", loss="shadow", device="cpu", epochs=3, batches=4, batch=20, per_class=2, patience=0, augment="none"
)
MINED = replace(MINED, mine_from_all=3, most_per_class=20)


class StopAt(Silent):
    """Asks to stop at a batch of an epoch."""

    def __init__(self, epoch, batch):
        self.place = epoch, batch

    def wants(self):
        return True

    def moment(self, moment):
        if (moment.epoch, moment.batch) == self.place:
            os.kill(os.getpid(), signal.SIGINT)


def losses(run):
    return [line["loss"] for line in Run(run).journal()]


def saved_weights(run):
    return torch.load(Run(run).state_file, weights_only=True)["parts"]["embedder"]


def test_it_begins_with_the_second_epoch_and_goes_on_bit_for_bit(tmp_path):
    train(MINED, tmp_path / "whole")
    train(replace(MINED, mine_from_all=0), tmp_path / "drawn")
    mined, drawn = losses(tmp_path / "whole"), losses(tmp_path / "drawn")
    assert mined[0] == drawn[0]
    assert mined[1:] != drawn[1:]
    with pytest.raises(Interrupted):
        train(MINED, tmp_path / "stopped", show=StopAt(2, 2))
    train(MINED, tmp_path / "stopped", resume=True)
    assert losses(tmp_path / "stopped") == mined
    whole, stopped = saved_weights(tmp_path / "whole"), saved_weights(tmp_path / "stopped")
    assert all(torch.equal(weight, stopped[name]) for name, weight in whole.items())


def test_what_makes_no_sense_is_refused():
    with pytest.raises(Mistake, match=r"--mine-from-all is -1; it must be 0 or more"):
        check_settings(replace(MINED, mine_from_all=-1))
    with pytest.raises(Mistake, match=r"--mine-guard is -0.5; it must be 0 or more"):
        check_settings(replace(MINED, mine_guard=-0.5))
