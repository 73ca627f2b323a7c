"""The certificate of a device: the pretended one, and the CPU itself in an accelerator's place."""

import pytest
import torch
from torch import nn

from shadowmetric.app.doctor.devices import certificate as device_certificate
from shadowmetric.app.doctor.devices import runs as device_runs
from shadowmetric.app.doctor.devices import times as device_times
from shadowmetric.app.doctor.devices.certificate import (
    GRADIENT_TOLERANCE,
    MINERS,
    VALUE_TOLERANCE,
    certify_device,
    check_all,
    check_loss,
    check_miner,
    compare,
    judge_loss,
)
from shadowmetric.app.doctor.devices.loss_steps import Case
from shadowmetric.app.doctor.devices.runs import Outcome, run_on, run_on_cpu, run_pretended
from shadowmetric.app.doctor.devices.times import time_on
from shadowmetric.types import Triplets

CPU = torch.device("cpu")  # in the place of an accelerator


@pytest.fixture
def quick(monkeypatch):
    """One small size, and steps that are timed once."""
    monkeypatch.setattr(device_certificate, "SIZES", (16,))
    monkeypatch.setattr(device_certificate, "ACCELERATOR_SIZES", (16,))
    monkeypatch.setattr(device_times, "ROUND_SECONDS", 0.0)


def test_without_an_accelerator_all_is_counted_and_never_timed(quick, monkeypatch):
    monkeypatch.setattr(device_certificate, "find_accelerator", lambda: None)
    stages, threads = [], torch.get_num_threads()
    found = certify_device(lambda stage, share: stages.append(share))
    assert (found.device, found.has_accelerator, found.is_ok) == ("pretended", False, True)
    assert {check.verdict for check in found.checks} <= {"equal", "close"}
    assert {check.verdict for check in found.checks if check.kind == "miner"} == {"equal"}
    assert all(check.kernels > 0 and check.times_us is None for check in found.checks)
    assert {check.name for check in found.checks if check.kind == "miner"} == set(MINERS)
    assert stages == sorted(stages)
    assert max(stages) < 1
    assert torch.get_num_threads() == threads
    written = found.as_dict()
    assert written["ok"]
    assert (written["value_tolerance"], written["gradient_tolerance"]) == (VALUE_TOLERANCE, GRADIENT_TOLERANCE)


def test_an_accelerator_is_compared_and_timed(quick, monkeypatch):
    monkeypatch.setattr(device_certificate, "find_accelerator", lambda: CPU)
    found = certify_device()
    assert (found.device, found.has_accelerator, found.is_ok) == ("cpu", True, True)
    for check in found.checks:
        assert check.waits is None  # torch tells them on CUDA alone
        assert (check.times_us is None) == (check.kind == "miner" or check.name.endswith(", slots"))  # timed together
        if check.times_us is not None:
            assert 0 < check.times_us["ours"] < float("inf")


def test_waits_of_an_accelerator_are_those_that_torch_reports(monkeypatch):
    class Recorded:
        def __enter__(self):
            return ["a.py:1", "a.py:1", "b.py:2"]

        def __exit__(self, *error):
            pass

    monkeypatch.setattr(device_runs, "record_waits", lambda device: Recorded())
    check, *_ = check_loss(Case("contrastive", "", 16), run_on(CPU), None)
    assert (check.waits, check.wait_lines, check.kernels) == (3, ("a.py:1", "b.py:2"), None)


def test_large_batches_have_no_list_of_all_triplets(monkeypatch):
    monkeypatch.setattr(device_certificate, "LISTED_ROWS", 8)
    names = [check.name for check in check_all(run_on_cpu, None, (16,)) if check.kind == "miner"]
    assert names == ["semi_hard", "hard", "batch_hard"]


def test_other_triplets_are_different_however_few():
    def run(miner, embeddings, labels):
        anchor, positive, negative = miner(embeddings, labels)
        return Outcome((anchor, positive, torch.cat([negative[1:], negative[:1]])))

    assert check_miner("hard", 16, run_on_cpu).verdict == "equal"
    assert check_miner("hard", 16, run).verdict == "different"
    assert not check_miner("hard", 16, run).is_ok


def test_the_rows_of_miners_have_ties():
    seen = []

    def run(miner, embeddings, labels):
        seen.append(embeddings)
        return run_on_cpu(miner, embeddings, labels)

    check_miner("hard", 16, run)
    assert len(seen[0].unique(dim=0)) == 14


@pytest.mark.parametrize(
    ("value", "gradient", "verdict"),
    [
        (0.0, 0.0, "equal"),
        (0.5 * VALUE_TOLERANCE, 0.5 * GRADIENT_TOLERANCE, "close"),
        (2.0 * VALUE_TOLERANCE, 0.0, "different"),
        (0.0, 2.0 * GRADIENT_TOLERANCE, "different"),
        (float("nan"), 0.0, "different"),
        (0.0, float("nan"), "different"),
    ],
)
def test_a_loss_is_judged_by_value_and_gradient(value, gradient, verdict):
    wanted = torch.tensor(2.0, dtype=torch.float64), torch.tensor([[1.0, -4.0]], dtype=torch.float64)
    results = wanted[0] * (1 + value), wanted[1] + 4 * gradient
    assert judge_loss(Outcome(results), Outcome(wanted))["verdict"] == verdict


def test_what_a_device_cannot_do_is_a_reason():
    def run(job, embeddings, labels):
        raise TypeError("no float64\nhere")

    check, *_ = check_loss(Case("shadow", "hard", 16), run, CPU)
    assert (check.verdict, check.reason, check.times_us) == ("failed", "TypeError: no float64", None)


def test_a_loss_that_mixes_devices_fails_on_the_pretended_one():
    class Mixed(nn.Module):
        def forward(self, embeddings, labels):
            return (embeddings * torch.ones(8)).sum()

    inputs = torch.randn(4, 8), torch.arange(4)
    check = compare("loss", "mixed", Mixed(), inputs, run_pretended, judge_loss)
    assert check.verdict == "failed"
    assert check.reason.startswith("RuntimeError: mul at app/doctor/devices/test_certificate.py:")


def test_a_loss_that_asks_where_its_rows_are_is_found_out():
    class Asks(nn.Module):
        def forward(self, embeddings, labels):
            return embeddings.sum() * (1 if embeddings.device.type == "cpu" else 2)

    inputs = torch.randn(4, 8), torch.arange(4)
    assert compare("loss", "asks", Asks(), inputs, run_pretended, judge_loss).verdict == "different"


def test_a_loss_with_slots_is_checked_with_them_too(monkeypatch):
    class Slotted(nn.Module):
        slots = None

        def forward(self, embeddings, labels):
            return embeddings.sum() * (self.slots or float(labels.max()))

    def build(self, *, slots=False):
        loss = Slotted()
        loss.slots = self.per_class - 1 if slots else None
        return loss

    monkeypatch.setattr(Case, "build", build)
    plain, slotted = check_loss(Case("shadow", "hard", 16), run_pretended, None)
    assert (plain.name, slotted.name) == ("shadow hard", "shadow hard, slots")
    assert (plain.waits, slotted.waits) == (1, 0)


def test_weights_of_a_loss_have_gradients_too():
    case = Case("soft_triple", "", 16)
    for run in (run_on_cpu, run_on(CPU), run_pretended):
        assert len(run(case.build(), *case.inputs()).results) == 3


def test_times_are_of_every_contender_or_a_reason(monkeypatch):
    monkeypatch.setattr(device_times, "ROUND_SECONDS", 0.0)
    seen = []
    monkeypatch.setattr(device_times, "synchronize", lambda device: seen.append(device))

    def fail(embeddings, labels):
        raise RuntimeError("no luck")

    field = [
        device_times.Contender("ours", lambda embeddings, labels: embeddings.sum()),
        device_times.Contender("dense", fail),
        device_times.Contender("pml", None, "not installed"),
    ]
    monkeypatch.setattr(device_times, "contenders", lambda case: field)
    times = time_on(CPU, Case("shadow", "hard", 16), rounds=2)
    assert 0 < times.pop("ours") < float("inf")
    assert times == {"dense": "RuntimeError: no luck", "pml": "not installed"}
    assert len(seen) == 2 * 3 + 1  # before and after each step of ours, and before the one that failed


def test_a_miner_on_the_pretended_device_gives_triplets_on_the_cpu():
    embeddings, labels = Case("shadow", "", 16).inputs()
    outcome = run_pretended(MINERS["hard"], embeddings, labels)
    assert all(map(torch.equal, outcome.results, Triplets(*MINERS["hard"](embeddings, labels))))
    assert outcome.waits > 0
    assert all(":" in line for line in outcome.wait_lines)


def test_an_accelerator_is_warm_before_its_waits_are_counted(monkeypatch):
    calls = []
    monkeypatch.setattr(device_runs, "synchronize", lambda device: calls.append("synchronize"))

    def mine(embeddings, labels):
        calls.append("mine")
        return Triplets(labels, labels, labels)

    run_on(CPU)(mine, *Case("shadow", "", 16).inputs())
    assert calls == ["mine", "synchronize", "mine"]
