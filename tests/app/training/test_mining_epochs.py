"""Semi-hard triplets first, others afterwards: which miner when, the same bits as each alone, and after a resume."""

import os
import signal
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from shadowmetric import AllMiner, BatchHardMiner, HardMiner, SemiHardMiner
from shadowmetric.app.training.loop import train
from shadowmetric.app.training.mining_epochs import mine_as_at
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings, check_settings
from shadowmetric.app.training.setup import loss_for
from shadowmetric.app.training.show import Silent
from shadowmetric.errors import Interrupted, Mistake
from shadowmetric.losses.catalogue import LOSSES

pytestmark = pytest.mark.usefixtures("one_thread")

WARMED = TrainSettings(device="cpu", epochs=3, batches=4, batch=20, per_class=2, patience=0, miner="hard")
WARMED = replace(WARMED, semi_hard_epochs=1)
KINDS = {"hard": HardMiner, "batch_hard": BatchHardMiner, "all": AllMiner}


class Told(Silent):
    def __init__(self, stop_in=0):
        self.said, self.stop_in = [], stop_in

    def notes(self, sentences):
        self.said += sentences

    def wants(self):
        return True

    def moment(self, moment):
        if moment.epoch == self.stop_in:
            os.kill(os.getpid(), signal.SIGINT)


def losses_of(run):
    return [line["loss"] for line in Run(run).journal()]


def test_the_first_epochs_are_those_of_semi_hard_mining_and_the_others_are_not(tmp_path):
    told = Told()
    train(WARMED, tmp_path / "warmed", show=told)
    train(replace(WARMED, semi_hard_epochs=0, miner="semi_hard"), tmp_path / "semi_hard")
    train(replace(WARMED, semi_hard_epochs=0), tmp_path / "hard")
    warmed, semi_hard, hard = (losses_of(tmp_path / name) for name in ("warmed", "semi_hard", "hard"))
    assert warmed[0] == semi_hard[0] != hard[0]
    assert all(mine not in others for mine, *others in zip(warmed[1:], semi_hard[1:], hard[1:], strict=True))
    assert [word for word in told.said if "semi-hard" in word] == [
        "Epoch 2: triplets are no longer semi-hard; from here on --miner hard chooses them."
    ]


@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_a_run_that_was_stopped_mines_as_the_other_did(tmp_path, epoch):
    train(WARMED, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train(WARMED, tmp_path / "stopped", show=Told(stop_in=epoch))
    train(WARMED, tmp_path / "stopped", resume=True)
    whole, stopped = (load_file(tmp_path / name / "best.safetensors") for name in ("whole", "stopped"))
    assert all(torch.equal(value, stopped[name]) for name, value in whole.items())
    assert losses_of(tmp_path / "whole") == losses_of(tmp_path / "stopped")


@pytest.mark.parametrize("miner", KINDS)
@pytest.mark.parametrize("name", [*LOSSES, "pml:TripletMarginLoss"])
def test_every_loss_of_triplets_changes_its_miner_and_no_other_has_one(name, miner):
    ours = not name.startswith("pml:")
    settings = replace(WARMED, loss=name, miner=miner, semi_hard_epochs=2, cross_batch_memory=0, scratch_mb=1)
    if ours and name not in ("soft_triple", "arc_face"):
        settings = replace(settings, cross_batch_memory=8, length_penalty=0.1)
    loss = loss_for(settings, classes=3)
    first = [module.__dict__["miner"] for module in loss.modules() if module.__dict__.get("miner") is not None]
    for epoch, kind in ((0, SemiHardMiner), (1, SemiHardMiner), (2, KINDS[miner]), (3, KINDS[miner])):
        mine_as_at(loss, settings, epoch)
        now = [module.__dict__["miner"] for module in loss.modules() if module.__dict__.get("miner") is not None]
        assert [type(one) for one in now] == [kind] * len(first)
        assert all(getattr(one, "scratch_bytes", 2**20) == 2**20 for one in now)
        assert all(getattr(one, "margin", 0.2) == 0.2 for one in now)
    assert now == first


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [({"miner": "semi_hard"}, "no meaning with --miner semi_hard"), ({"semi_hard_epochs": -1}, "must be 0 or more")],
)
def test_what_has_no_meaning_is_refused(changes, sentence):
    with pytest.raises(Mistake, match=sentence):
        check_settings(replace(WARMED, **changes))
