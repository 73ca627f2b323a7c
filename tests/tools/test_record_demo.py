"""The record of a demo holds every loss and seed, and what the command says first; pages say the same."""

import json
from pathlib import Path

import pytest
from finished_runs import write_finished

from shadowmetric.app.compare.compare import as_csv
from shadowmetric.app.compare.plan import Plan
from shadowmetric.app.report.tables import as_markdown
from shadowmetric.app.training.runs.settings import TrainSettings
from tools import record_demo
from tools.pages.demo_table import demo_table, demo_words

ROOT = Path(__file__).parents[2]


@pytest.fixture
def demo(tmp_path):
    """A demo of two losses and two seeds."""
    plan = Plan(TrainSettings(epochs=8), tmp_path / "demo", losses=("shadow", "triplet"), controls=False, seeds=2)
    plan.begin()
    for seed in (0, 1):
        for name, right in (("shadow", 30), ("triplet", 34 + 2 * seed), ("raw_pixels", 8), ("untrained", 4)):
            write_finished(plan, name, seed, [1.0] * right + [0.0] * (40 - right))
    (plan.out / "compare.csv").write_text(as_csv(plan))
    return plan.out


def test_a_record_has_the_figures_and_the_first_sentence(demo):
    record = record_demo.record(demo)
    assert record["said"].startswith("Training helps: on 40 test images of 4 classes that training never saw, all two")
    assert [(row["name"], row["seed"], row["recall_at_1"]) for row in record["rows"][2:4]] == [
        ("triplet", "0", "0.85"),
        ("triplet", "1", "0.9"),
    ]
    assert record["differences"].keys() == {"triplet", "raw_pixels", "untrained"}
    assert record["command"] == "shadowmetric compare --epochs 8"


def test_the_table_and_the_words_are_those_of_the_record(demo):
    record = record_demo.record(demo)
    text = as_markdown(demo_table(record))
    assert "| triplet | 87.50 ± 3.54 | 43.75 ± 1.77 | +" in text
    assert "| shadow | 75.00 | 37.50 |  |" in text
    assert "*raw_pixels*" in text
    assert "mean ± spread of 2 seeds" in text
    assert "a core" not in text
    assert demo_words(record) == f"`make demo` ends with a page that begins: *{record['said']}*\n"
    timed = record | {"seconds": 90, "processor_seconds": 170}
    assert "takes 2.8 minutes of a core, half as many on two, and ends with" in demo_words(timed)
    assert ", 170 s of a core in all" in as_markdown(demo_table(timed))


def test_a_demo_that_is_there_is_recorded_without_times(demo, tmp_path, monkeypatch):
    monkeypatch.setattr(record_demo, "ROOT", tmp_path)
    monkeypatch.setattr(record_demo, "RECORD", tmp_path / "demo.json")
    monkeypatch.setattr("sys.argv", ["record_demo", "--of", str(demo), "--no-image"])
    record_demo.main()
    assert json.loads((tmp_path / "demo.json").read_text()) == record_demo.record(demo)


def test_the_command_of_the_demo_is_that_of_the_makefile():
    record = json.loads(record_demo.RECORD.read_text(encoding="utf-8"))
    assert f"{record['command']} --out $(DEMO)" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert len({row["name"] for row in record["rows"] if row["kind"] == "loss"}) == 6
    assert {row["kind"] for row in record["rows"]} == {"loss", "control", "floor"}
