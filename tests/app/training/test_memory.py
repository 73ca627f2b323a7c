"""A run within a memory budget: planned, predicted, measured, refused."""

import pytest
import torch

from shadowmetric.app.training.loop import train
from shadowmetric.app.training.memory import set_scratch
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.app.training.setup import loss_for
from shadowmetric.app.training.show import Silent
from shadowmetric.batches.budget import parse_bytes
from shadowmetric.batches.meter import held_bytes
from shadowmetric.errors import Mistake
from shadowmetric.losses.catalogue import LOSSES

needs_proc = pytest.mark.skipif(held_bytes() is None, reason="this system has no /proc")


class Hearing(Silent):
    def __init__(self):
        self.said = []

    def notes(self, sentences):
        self.said += sentences


def quick(**more) -> TrainSettings:
    given = {"data": "digits", "loss": "shadow", "epochs": 1, "batches": 2, "patience": 0, "device": "cpu"}
    given |= {"logical_batch": 200, "per_class": 4}
    return TrainSettings(**(given | more))


@needs_proc
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"cross_batch_memory": 100},
        {"batch": 8, "logical_batch": None},
        {"loss": "soft_triple"},
        {"loss": "multi_similarity"},
    ],
)
def test_a_run_says_its_plan_and_keeps_to_it(tmp_path, more):
    show, budget = Hearing(), f"{held_bytes() // 10**6 + 400}MB"
    scores = train(quick(memory_budget=budget, **more), tmp_path / "run", show=show)
    figures = scores["memory_bytes"]
    assert figures["budget"] == parse_bytes(budget)
    assert figures["predicted"] <= figures["budget"]
    assert any("predicted at the peak, of a budget of" in said for said in show.said)
    assert any("measured at the peak" in said for said in show.said)
    settings = Run(tmp_path / "run").settings()
    assert 1 <= settings.micro_batch <= 200  # pinned, so that a resume and a replay have the same
    assert settings.logical_batch is None
    assert settings.batch == more.get("batch", 200)
    assert settings.memory_budget == budget


@needs_proc
def test_a_budget_too_small_is_refused_with_one_that_will_do(tmp_path):
    with pytest.raises(Mistake, match="--memory-budget is 50 MB; the smallest that will do is") as refused:
        train(quick(memory_budget="50MB"), tmp_path / "run")
    enough = str(refused.value).split("will do is ")[1].split(":")[0]
    assert not (tmp_path / "run").exists()
    more = parse_bytes(enough) + 30 * 10**6  # this process has grown meanwhile
    train(quick(memory_budget=f"{more // 10**6}MB"), tmp_path / "run")


@needs_proc
def test_a_micro_batch_goes_with_a_budget_and_a_resume_keeps_it(tmp_path):
    budget = f"{held_bytes() // 10**6 + 400}MB"
    scores = train(quick(memory_budget=budget, micro_batch=50), tmp_path / "run")
    assert Run(tmp_path / "run").settings().micro_batch == 50
    Run(tmp_path / "run").scores_file.unlink()
    again = train(quick(), tmp_path / "run", resume=True)
    assert again["recall_at_1"] == scores["recall_at_1"]
    assert again["memory_bytes"]["predicted"] == scores["memory_bytes"]["predicted"]


def test_the_cache_of_images_takes_a_quarter_of_a_budget_at_most():
    from shadowmetric.app.training.runs.settings import with_recipe

    assert with_recipe(quick(memory_budget="1GiB")).cache_mb == 256
    assert with_recipe(quick(memory_budget="1GiB", cache_mb=100)).cache_mb == 100
    assert with_recipe(quick()).cache_mb == 2048


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"memory_budget": "lots"}, "--memory-budget is 'lots'; give a number with a unit"),
        ({"batch": 32}, "--batch is 32 and --logical-batch 200; both say how many images the loss sees"),
        ({"micro_batch": 0}, "--micro-batch is 0; it must be 1 or more"),
        ({"cross_batch_memory": -1}, "--cross-batch-memory is -1"),
        ({"cross_batch_warmup": 3}, "--cross-batch-warmup has no meaning without --cross-batch-memory"),
        ({"cross_batch_memory": 9, "loss": "arc_face"}, "--cross-batch-memory adds nothing to arc_face"),
        ({"micro_batch": 1}, "batch normalization takes its statistics from at least 2 images; raise it"),
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path, more, message):
    with pytest.raises(Mistake, match=message):
        train(quick(**more), tmp_path / "run")


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("memory", [0, 10])
def test_the_scratch_reaches_every_loss_and_its_miner(name, memory):
    loss = loss_for(quick(loss=name, cross_batch_memory=memory, scratch_mb=3), classes=4)
    inner = loss.loss if memory else loss
    assert inner.scratch_bytes == 3 * 2**20
    assert getattr(inner, "miner", None) is None or inner.miner.scratch_bytes == 3 * 2**20
    set_scratch(loss, 2**20)
    assert inner.scratch_bytes == 2**20
    assert getattr(inner, "miner", None) is None or inner.miner.scratch_bytes == 2**20
    loss(torch.randn(8, 64), torch.arange(8) % 4)
