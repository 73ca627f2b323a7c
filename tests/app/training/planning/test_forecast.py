"""The plan's arithmetic, its words, and what it advises."""

import shlex
from dataclasses import replace

import pytest
from PIL import Image

from shadowmetric.app.training.planning.advice import advise, command_of
from shadowmetric.app.training.planning.costs import Costs
from shadowmetric.app.training.planning.dry_run import plan_run
from shadowmetric.app.training.planning.forecast import Counts, Forecast
from shadowmetric.app.training.runs.settings import TrainSettings, resolve_settings

COUNTS = Counts(train=6400, classes=64, validation=100, scored=200, test=200, batches=100, epochs=30, unread=0)
COSTS = Costs(read=0.0, step=0.5, timed=64, embed=0.01, epoch_scores=(1.0, 1e-4), scores=(2.0, 1e-4))


def plan(counts=COUNTS, costs=COSTS, **changes):
    given = TrainSettings(**({"data": "folder:my photos", "backbone": "resnet18", "batch": 64} | changes))
    settings = resolve_settings(given, size=224, resize=256, channels=3)
    source = "from scratch" if given.weights is None else "weights of a.safetensors"
    return given, Forecast(settings, counts, costs, 11_000_000, source, "cpu", 2 * 10**9, 2)


def test_the_time_is_the_sum_of_its_pieces():
    _, forecast = plan()
    assert forecast.epoch == pytest.approx(100 * 0.5 + 100 * 0.01 + 1.0 + 1e-4 * 100**2)
    assert forecast.seconds() == pytest.approx(30 * forecast.epoch + 200 * 0.01 + 2.0 + 1e-4 * 200**2)
    assert forecast.seconds(3) == pytest.approx(forecast.seconds() - 27 * forecast.epoch)


def test_images_are_read_once_or_whenever_they_are_asked_for():
    slow = replace(COSTS, read=0.02)
    kept, lazy = (plan(replace(COUNTS, unread=count), slow)[1] for count in (6700, 0))
    assert kept.seconds() == pytest.approx(plan()[1].seconds() + 6700 * 0.02 / 2)  # two cores read
    assert lazy.epoch == pytest.approx(plan()[1].epoch + (6400 + 100) * 0.02 / 2)


def test_a_plan_of_minutes_has_no_advice():
    given, forecast = plan(COUNTS, replace(COSTS, step=0.05))
    assert advise(forecast, given) == []


def test_hours_have_commands_that_take_minutes_and_can_be_run():
    given, forecast = plan(COUNTS, replace(COSTS, step=30.0, embed=0.15), seed=3)
    words = [shlex.split(line.split("    about ")[0]) for line in advise(forecast, given)[1:]]
    assert words[0][2:] == [
        "--data",
        "folder:my photos",
        "--backbone",
        "small_cnn",
        "--size",
        "64",
        "--batch",
        "64",
        "--seed",
        "3",
    ]
    given, forecast = plan(COUNTS, replace(COSTS, step=4.0, embed=0.01), weights="a.safetensors")
    lines = advise(forecast, given)
    assert "--recipe head" in lines[1]
    assert "--size 96" in lines[2]
    fewer = dict(zip(*[iter(shlex.split(lines[3].split("    about ")[0])[2:])] * 2, strict=True))
    assert int(fewer["--most-per-class"]) * 64 * int(fewer["--epochs"]) * 4.0 / 64 <= 600


def test_a_command_says_what_was_given_and_no_more():
    assert command_of("shadowmetric train", TrainSettings()) == "shadowmetric train"
    assert command_of("x", TrainSettings(unit_rows=False, allow_partial=True)).split()[1:] == [
        "--allow-partial",
        "--no-unit-rows",
    ]


def test_a_plan_reads_a_few_images_and_writes_nothing(tmp_path, monkeypatch):
    for number in range(24):
        folder = tmp_path / "photos" / f"class{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 20), (10 * number, 90, 200 - number)).save(folder / f"{number}.png")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    settings = TrainSettings(data=f"folder:{tmp_path / 'photos'}", device="cpu", epochs=2, batch=6, patience=0)
    forecast = plan_run(settings)
    assert not list(elsewhere.iterdir())
    assert forecast.costs.read > 0
    assert forecast.counts.unread == 24
    assert forecast.reading > 0
    assert forecast.counts.train + forecast.counts.validation + forecast.counts.test == 24
    said = " ".join(forecast.sentences())
    assert "small_cnn" in said
    assert "20 × 20 in color" in said
