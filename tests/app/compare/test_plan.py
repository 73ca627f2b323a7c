"""A plan goes on in its folder from any machine, and with no other choices than it began with."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from shadowmetric.app.compare.plan import Plan, read_plan
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.errors import Mistake

FILE = "/one/lite0.safetensors"
SETTINGS = TrainSettings(backbone="resnet18", weights=FILE, data_root=Path("/one/data"))


@pytest.fixture
def plan(tmp_path):
    return Plan(SETTINGS, tmp_path / "bed", losses=("shadow",)).begin_or_go_on()


def changed(plan, **settings):
    return replace(plan, settings=replace(plan.settings, **settings))


def test_places_of_a_machine_are_no_part_of_a_plan(plan):
    places = {"data_root": Path("/two/data"), "weights": "/two/lite0.safetensors"}
    other = changed(replace(plan, jobs=9), **places, cache_mb=7, workers=2, save_every=5.0)
    assert other.begin_or_go_on() == other
    assert read_plan(plan.out) == plan


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"margin": 0.3}, r"other settings \(margin 0\.2 there and 0\.3 here\)"),
        ({"weights": "/one/other.pt"}, r"\(weights lite0\.safetensors there and other\.pt here\)"),
        (
            {"weights": "none", "learning_rate": 1e-4, "head_learning_rate": 1e-3},
            r"weights lite0\.safetensors there and none here",
        ),
    ],
)
def test_other_choices_are_named_with_both_values(plan, settings, said):
    with pytest.raises(Mistake, match=said):
        changed(plan, **settings).begin_or_go_on()


def test_losses_and_seeds_are_choices(plan):
    with pytest.raises(
        Mistake, match=r"\(losses \('shadow',\) there and \('triplet',\) here; seeds 3 there and 5 here\)"
    ):
        replace(plan, losses=("triplet",), seeds=5).begin_or_go_on()


def test_without_a_file_of_weights_it_goes_on_with_the_one_it_began_with(plan, tmp_path):
    found = changed(plan, weights="pretrained").begin_or_go_on()
    assert {cell.settings.weights for cell in found.cells()} == {FILE}
    published = changed(replace(plan, out=tmp_path / "published"), weights="pretrained").begin_or_go_on()
    assert published.settings.weights == "pretrained"
    with pytest.raises(Mistake, match=r"weights pretrained there and lite0\.safetensors here"):
        changed(published, weights=FILE).begin_or_go_on()


def test_of_two_that_start_together_one_begins_and_the_other_goes_on(tmp_path, monkeypatch):
    begun, begin = [], Plan.begin

    def slowly(plan):
        begun.append(plan)
        time.sleep(0.3)
        begin(plan)

    monkeypatch.setattr(Plan, "begin", slowly)
    plan = Plan(TrainSettings(), tmp_path)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(Plan.begin_or_go_on, [plan, plan])) == [plan, plan]
    assert len(begun) == 1


def test_all_losses_have_the_same_batches(tmp_path):
    plan = Plan(TrainSettings(), tmp_path, ("shadow", "soft_triple", "multi_similarity"))
    assert {(cell.settings.batch, cell.settings.per_class) for cell in plan.cells()} == {(64, 4)}
    plan = Plan(TrainSettings(batch=20, recipe="paper"), tmp_path, ("soft_triple",))
    assert {(cell.settings.batch, cell.settings.per_class) for cell in plan.cells()} == {(20, 5)}
