"""Losses on equal terms: a plan's cells, its controls and floors, a resume of what is missing, its table."""

import csv
import io
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

from shadowmetric.app.compare import cells
from shadowmetric.app.compare import compare as comparing
from shadowmetric.app.compare.cells import Cell, progress, run_cells
from shadowmetric.app.compare.compare import FIGURES, as_csv, compare, rounding_noise, rows_of
from shadowmetric.app.compare.plan import Plan, read_plan
from shadowmetric.app.training.loop import train
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.errors import Interrupted, Mistake
from shadowmetric.losses.catalogue import CONTROLS, PAPER_LOSSES

QUICK = TrainSettings(data="digits", device="cpu", epochs=2, batches=4, batch=20, per_class=2)


def in_this_process(wanted, jobs, tell=None):
    torch.set_num_threads(1)
    for cell in wanted:
        if cell.run.scores() is None:
            train(cell.settings, cell.folder, resume=cell.run.settings_file.exists())
    return {}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A comparison of two losses with controls and floors, two seeds, run in this process."""
    plan = Plan(QUICK, tmp_path_factory.mktemp("compare"), losses=("shadow", "soft_triple"), seeds=2)
    plan.begin()
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "run_cells", in_this_process)
        rows, failures = compare(plan)
    assert failures == {}
    torch.set_num_threads(threads)
    return plan, rows


def test_the_cells_of_a_plan(tmp_path):
    plan = Plan(replace(QUICK, seed=4, patience=9), tmp_path, seeds=3)
    found = plan.cells()
    assert [cell.settings.loss for cell in found] == [*PAPER_LOSSES, *CONTROLS] * 3
    assert [cell.settings.seed for cell in found] == sorted([4, 5, 6] * 8)
    assert len({cell.folder for cell in found}) == 24
    shared = {replace(cell.settings, loss="", seed=0) for cell in found}
    assert shared == {replace(QUICK, loss="", seed=0, patience=0)}  # one budget for all


def test_every_row_has_every_seed(made):
    _plan, rows = made
    assert [row.name for row in rows] == ["shadow", "soft_triple", *CONTROLS, "raw_pixels", "untrained"]
    assert [row.kind for row in rows] == ["loss", "loss", "control", "control", "floor", "floor"]
    for row in rows:
        assert len(row.figures["recall_at_1"]) == 2
        assert row.mean("map_at_r") == pytest.approx(sum(row.figures["map_at_r"]) / 2)
        assert (row.beside is None) == (row.name == "shadow")
    assert rows[4].spread("recall_at_1") == 0  # pixels have no seed


def test_differences_are_those_of_the_figures(made):
    _, rows = made
    reference = rows[0].figures["recall_at_1"]
    for row in rows[1:]:
        mine = row.figures["recall_at_1"]
        assert row.seed_differences == pytest.approx([a - b for a, b in zip(mine, reference, strict=True)])
        assert row.beside.difference == pytest.approx(sum(row.seed_differences) / 2)
        assert row.beside.queries == 602


def test_the_controls_are_one_loss(made):
    _, rows = made
    noise = rounding_noise(rows)
    assert noise is not None
    assert noise < 0.02
    assert rounding_noise(rows[:2]) is None


def test_the_csv_has_a_line_a_cell(made):
    plan, rows = made
    lines = list(csv.DictReader(io.StringIO(as_csv(plan))))
    assert len(lines) == 12
    assert (plan.out / "compare.csv").read_text() == as_csv(plan)
    for line in lines:
        row = next(row for row in rows if row.name == line["name"])
        assert float(line["recall_at_1"]) == row.figures["recall_at_1"][int(line["seed"])]
        assert set(FIGURES) <= line.keys()


def test_a_resume_runs_only_what_is_missing(made, monkeypatch):
    plan, rows = made
    again = read_plan(plan.out)
    assert again == plan
    monkeypatch.setattr(cells, "run_cell", lambda cell, stop: pytest.fail("a finished cell ran again"))
    monkeypatch.setattr(comparing, "score_floor", lambda *_: pytest.fail("a floor was scored again"))
    found, _ = compare(again)
    assert [row.figures for row in found] == [row.figures for row in rows]
    assert progress(plan.cells()) == (f"{len(plan.cells())} of {len(plan.cells())} trainings done", 1.0)


def test_unfinished_rows_are_compared_by_what_there_is(made, tmp_path):
    plan, _ = made
    more = replace(plan, seeds=3)  # of which the third is missing everywhere
    assert all(len(row.figures["recall_at_1"]) == 2 for row in rows_of(more))
    assert rows_of(replace(plan, out=tmp_path)) == []


def test_floors_know_nothing_of_the_loss(made):
    _, rows = made
    floors = {row.name: row for row in rows if row.kind == "floor"}
    assert floors["raw_pixels"].mean("recall_at_1") > 0.95  # digits are easy for pixels
    assert floors["untrained"].figures["recall_at_1"][0] != floors["untrained"].figures["recall_at_1"][1]
    assert not math.isnan(floors["untrained"].mean("accuracy"))


def test_plans_that_are_refused(tmp_path, made):
    plan, _ = made
    with pytest.raises(Mistake, match="holds a comparison already; go on with it by `shadowmetric compare --resume"):
        plan.begin()
    with pytest.raises(Mistake, match="--seeds is 0"):
        Plan(QUICK, tmp_path, seeds=0).begin()
    with pytest.raises(Mistake, match="--loss is 'x'"):
        Plan(QUICK, tmp_path, losses=("x",)).begin()
    with pytest.raises(Mistake, match="--losses names none"):
        Plan(QUICK, tmp_path, losses=()).begin()
    with pytest.raises(Mistake, match="holds no comparison"):
        read_plan(tmp_path)
    (tmp_path / "compare.yaml").write_text("seeds: 3")
    with pytest.raises(Mistake, match="is no plan"):
        read_plan(tmp_path)


def test_processes_of_their_own_train_the_same_bits(made, tmp_path):
    plan, rows = made
    one = replace(plan, out=tmp_path, losses=("shadow",), controls=False, floors=False, seeds=1)
    told = []
    broken = Cell(tmp_path / "broken", replace(QUICK, data="npz:nothing.npz"))
    failures = run_cells([broken, *one.cells()], 2, lambda names, share: told.append(share))
    assert list(failures) == ["broken"]
    assert "nothing.npz" in failures["broken"]
    assert one.run("shadow", 0).scores()["map_at_r"] == rows[0].figures["map_at_r"][0]
    assert told[-1] == 0.5  # the other failed


def test_rows_are_paired_by_seed(made, tmp_path):
    plan, rows = made
    partial = replace(plan, out=tmp_path / "partial")
    shutil.copytree(plan.out, partial.out)
    partial.run("shadow", 0).scores_file.unlink()
    found = {row.name: row for row in rows_of(partial)}
    assert found["soft_triple"].seed_differences == pytest.approx(rows[1].seed_differences[1:])
    assert found["shadow"].figures["recall_at_1"] == rows[0].figures["recall_at_1"][1:]


def test_ctrl_c_saves_every_process_and_a_resume_ends_the_same(made, tmp_path):
    plan, rows = made
    longer = replace(plan, out=tmp_path / "stopped", losses=("shadow",), controls=False, floors=False, jobs=2)
    longer.begin()
    words = [sys.executable, "-m", "shadowmetric", "compare", "--resume", str(longer.out)]
    stopped = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not any(longer.run("shadow", seed).settings_file.exists() for seed in (0, 1)):
        assert stopped.poll() is None
        time.sleep(0.02)
    os.killpg(stopped.pid, signal.SIGINT)  # as a terminal does: to everybody
    said = stopped.communicate()[1]
    assert "Traceback" not in said
    if stopped.returncode != 0:  # it may have been quick enough to finish
        assert stopped.returncode == 130
        assert said.strip().endswith(f"shadowmetric compare --resume {shlex.quote(str(longer.out))}")
    compare(longer)
    assert [run.scores()["map_at_r"] for run in longer.finished_runs("shadow").values()] == rows[0].figures["map_at_r"]


def test_an_interrupt_names_the_command_that_goes_on(tmp_path, monkeypatch):
    plan = Plan(QUICK, tmp_path / "a b", floors=False)

    def stopped(*given):
        raise Interrupted

    monkeypatch.setattr(comparing, "run_cells", stopped)
    with pytest.raises(Interrupted, match=r"shadowmetric compare --resume '.*a b'"):
        compare(plan)
