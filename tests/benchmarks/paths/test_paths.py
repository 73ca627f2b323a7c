"""Rows of the paths: counts that are known, ratios to the quicker other, reasons for what is not run."""

import builtins

import pytest
import torch
from torch import nn

import shadowmetric as sm
from benchmarks.paths import compile_times, paths
from benchmarks.paths.compile_times import measure_compile
from benchmarks.paths.paths import COLUMNS, count_at_any_size, measure_case
from shadowmetric.app.doctor.devices import contenders as path_contenders
from shadowmetric.app.doctor.devices.contenders import Contender, contender_names, contenders
from shadowmetric.app.doctor.devices.loss_steps import MINED, Case, cases, set_slots, takes_slots
from shadowmetric.app.doctor.devices.times import use_threads
from shadowmetric.losses.catalogue import CONTROLS, LOSSES

SMALL = Case("shadow", "semi_hard", 16, dim=8)


class Slotted(nn.Module):
    slots: int | None = None

    def forward(self, embeddings, labels):
        return embeddings.sum()


@pytest.fixture
def quick(monkeypatch):
    """Let each contender run once in a round."""
    monkeypatch.setattr(paths, "ROUND_SECONDS", 0.0)


def test_a_case_has_a_row_for_each_contender_and_the_ratio_is_to_the_quicker_other(quick):
    rows = {row["contender"]: row for row in measure_case(SMALL, 2)}
    assert list(rows) == contender_names(SMALL)
    assert all(tuple(row) == COLUMNS for row in rows.values())
    run = [row for row in rows.values() if not row["reason"]]
    for row in run:
        assert row["total_us"] == pytest.approx(row["forward_us"] + row["backward_us"])
    best = min(row["total_us"] for row in run if row["contender"] in path_contenders.PEERS)
    for row in run:
        assert row["ratio"] == row["total_us"] / best
    assert rows["dense"]["waits"] == 1  # its nonzero
    assert rows["ours"]["kernels"] > rows["dense"]["kernels"] > 0


@pytest.mark.parametrize("name", [name for name in LOSSES if name not in CONTROLS])
def test_every_loss_has_a_case_whose_names_are_foreseen(name):
    for case in cases((name,), ("semi_hard", "hard", "batch_hard", "all"), 16, 8, 4):
        assert [one.name for one in contenders(case)] == contender_names(case)
    assert isinstance(case.build(), nn.Module)


def test_losses_of_triplets_are_those_with_a_miner():
    built = {name: Case(name, "", 16, dim=8).build() for name in LOSSES if name not in CONTROLS}
    assert tuple(name for name, loss in built.items() if isinstance(loss, sm.losses.mined.MinedLoss)) == MINED
    assert len(cases(("shadow", "n_pair"), ("hard", "batch_hard"), 16, 8, 4)) == 3


def test_others_are_not_run_where_their_tensors_are_too_large(quick):
    others = [one for one in contenders(Case("shadow", "semi_hard", 4096)) if not one.name.startswith("ours")]
    assert [one.name for one in others if one.name in path_contenders.PEERS] == ["dense", "pml"]
    for one in others:
        assert one.program is None
        assert "not run beyond 2,048 rows" in one.reason


def test_a_missing_peer_is_a_row_that_says_so(quick, monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest):
        if name.startswith("pytorch_metric_learning"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    row = measure_case(SMALL, 1)[-1]
    assert (row["contender"], row["total_us"], row["kernels"]) == ("pml", None, None)
    assert row["reason"] == "not installed: pip install 'shadowmetric[peers]'"


def test_a_contender_that_fails_is_a_row_with_the_reason(quick, monkeypatch):
    def fail(embeddings, labels):
        raise RuntimeError("no luck\nat all")

    field = [Contender("ours", lambda embeddings, labels: embeddings.sum()), Contender("dense", fail)]
    monkeypatch.setattr(paths, "contenders", lambda case: field)
    ours, dense = measure_case(SMALL, 1)
    assert ours["total_us"] > 0
    assert ours["ratio"] is None
    assert (dense["reason"], dense["total_us"]) == ("RuntimeError: no luck", None)


def test_a_step_that_reads_is_counted_with_values_and_another_by_shapes_alone():
    embeddings, labels = SMALL.inputs()
    by_shapes = count_at_any_size(lambda rows, labels: (rows @ rows.T).sum(), embeddings, labels)
    with_values = count_at_any_size(lambda rows, labels: rows.sum() * rows.max().item(), embeddings, labels)
    assert (by_shapes.waits, by_shapes.value) == (0, None)
    assert with_values.waits == 1
    assert with_values.value is not None


def test_a_large_step_that_reads_has_no_counts_and_no_reason(monkeypatch):
    monkeypatch.setattr(paths, "MOST_VALUES", 8)
    rows = {row["contender"]: row for row in measure_case(SMALL, 0)}
    assert (rows["ours"]["kernels"], rows["ours"]["reason"], rows["ours"]["total_us"]) == (None, None, None)
    assert rows["ours, slots"]["waits"] == 0


def test_the_way_of_a_cpu_is_said():
    small, large = (Case("shadow", "hard", batch, dim=8) for batch in (16, 1024))
    others = Case("shadow", "all", 16, dim=8), Case("n_pair", "", 16, dim=8)
    assert [paths.way_of(case) for case in (small, large, *others)] == ["matrix", "class", "streamed", "streamed"]


def test_inputs_are_whole_classes():
    embeddings, labels = Case("shadow", "hard", 24, dim=8, per_class=3).inputs()
    assert embeddings.shape == (24, 8)
    assert labels.bincount().tolist() == [3] * 8


def test_slots_reach_a_loss_that_takes_them_and_no_other():
    loss, other = Slotted(), nn.Identity()
    set_slots(loss, 3)
    set_slots(other, 3)
    assert loss.slots == 3
    assert takes_slots(loss)
    assert not hasattr(other, "slots")


def test_a_loss_that_takes_slots_is_a_contender_with_them_too(monkeypatch):
    def build(self, *, slots=False):
        loss = Slotted()
        if slots:
            set_slots(loss, self.per_class - 1)
        return loss

    monkeypatch.setattr(Case, "build", build)
    plain, told, *_ = contenders(SMALL)
    assert (plain.name, told.name) == ("ours", "ours, slots") == tuple(contender_names(SMALL)[:2])
    assert (plain.program.slots, told.program.slots) == (None, 3)


def test_threads_are_given_back():
    before = torch.get_num_threads()
    with use_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_compiling_is_a_row_and_so_is_what_cannot_be_compiled(quick, monkeypatch):
    compiled = []

    def compile_nothing(program, *, fullgraph):
        compiled.append(fullgraph)
        return program

    monkeypatch.setattr(torch, "compile", compile_nothing)
    row = measure_compile(SMALL, 1)
    assert compiled == [True]
    assert tuple(row) == compile_times.COLUMNS
    assert row["reason"] is None
    assert min(row["cold_seconds"], row["warm_us"], row["eager_us"]) > 0

    monkeypatch.setattr(torch, "compile", lambda program, *, fullgraph: 1 / 0)
    row = measure_compile(SMALL, 1)
    assert row["reason"] == "ZeroDivisionError: division by zero"
    assert row["warm_us"] is None
