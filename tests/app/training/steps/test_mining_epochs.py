"""Semi-hard triplets first, others afterwards: which miner when, the same bits as each alone, and after a resume."""

import os
import signal
from dataclasses import replace
from math import inf

import pytest
import torch
from safetensors.torch import load_file

from shadowmetric import AllMiner, BatchHardMiner, HardMiner, SemiHardMiner
from shadowmetric.app.training.loop import train
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings, check_settings, with_recipe
from shadowmetric.app.training.setup import loss_for
from shadowmetric.app.training.show import Silent
from shadowmetric.app.training.steps.mining_epochs import mine_as_at
from shadowmetric.errors import Interrupted, Mistake
from shadowmetric.losses.catalogue import CLASS_LOSSES, LOSSES

pytestmark = pytest.mark.usefixtures("one_thread")

WARMED = TrainSettings(
    data="digits", loss="shadow", device="cpu", epochs=3, batches=4, batch=20, per_class=2, patience=0, miner="hard"
)
WARMED = replace(WARMED, semi_hard_epochs=1)
UNITS = {  # of a loss's miner by name
    "shadow": "gap",
    "triplet": "squared",
    "soft_margin_triplet": "distance",
    "angular_triplet": "angle",
    "triplet_control": "gap",
    "double_shadow": "gap",
    "pml:TripletMarginLoss": "distance",
}
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
@pytest.mark.parametrize("mining_unit", ["loss", "squared"])
@pytest.mark.parametrize("name", [*LOSSES, "pml:TripletMarginLoss"])
def test_every_loss_of_triplets_changes_its_miner_and_no_other_has_one(name, mining_unit, miner):
    ours = not name.startswith("pml:")
    settings = replace(WARMED, loss=name, miner=miner, mining_unit=mining_unit, semi_hard_epochs=2, scratch_mb=1)
    settings = replace(settings, cross_batch_memory=0)
    unit = UNITS.get(name, "squared") if mining_unit == "loss" else "squared"
    margin = inf if name == "soft_margin_triplet" and mining_unit == "loss" else 0.2  # it never lets go of a triplet
    if ours and name not in CLASS_LOSSES:
        settings = replace(settings, cross_batch_memory=8, length_penalty=0.1)
    loss = loss_for(settings, classes=3)
    first = [module.__dict__["miner"] for module in loss.modules() if module.__dict__.get("miner") is not None]
    for epoch, kind in ((0, SemiHardMiner), (1, SemiHardMiner), (2, KINDS[miner]), (3, KINDS[miner])):
        mine_as_at(loss, settings, epoch)
        now = [module.__dict__["miner"] for module in loss.modules() if module.__dict__.get("miner") is not None]
        assert [type(one) for one in now] == [kind] * len(first)
        assert all(getattr(one, "scratch_bytes", 2**20) == 2**20 for one in now)
        assert all(getattr(one, "margin", margin) == margin for one in now)
        assert all(one.unit == unit for one in now if not isinstance(one, AllMiner))
    assert now == first


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("unit_rows", [True, False])
def test_the_paper_s_recipe_mines_in_squared_distance_on_unit_rows_whatever_the_loss(name, unit_rows):
    settings = TrainSettings(loss=name, unit_rows=unit_rows, weights="none")
    default, paper = (with_recipe(replace(settings, recipe=recipe)) for recipe in ("default", "paper"))
    assert (default.mining_unit, paper.mining_unit) == ("loss", "squared")
    scratch = settings.scratch_mb * 2**20
    assert loss_for(paper, classes=3).miner == SemiHardMiner(0.2, scratch_bytes=scratch)
    own = loss_for(default, classes=3).miner
    assert (own.unit, own.normalize) == (UNITS[name], unit_rows)
    chosen = with_recipe(replace(settings, recipe="paper", mining_unit="loss"))
    assert loss_for(chosen, classes=3).miner == own


def test_an_unknown_mining_unit_is_refused():
    with pytest.raises(Mistake, match="--mining-unit is 'gap'; choose one of loss, squared"):
        check_settings(TrainSettings(mining_unit="gap"))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [({"miner": "semi_hard"}, "no meaning with --miner semi_hard"), ({"semi_hard_epochs": -1}, "must be 0 or more")],
)
def test_what_has_no_meaning_is_refused(changes, sentence):
    with pytest.raises(Mistake, match=sentence):
        check_settings(replace(WARMED, **changes))
