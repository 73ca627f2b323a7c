"""Do losses and miners give on an accelerator what they give on the CPU, and what do they ask of it?

    triplets     of each miner, equal to the CPU's, in the same order; the rows have equal ones among them
    value        relative difference from the CPU's, up to VALUE_TOLERANCE
    gradient     largest difference as a share of the CPU's largest number, up to GRADIENT_TOLERANCE
    waits        times that the host waited: reported by torch on CUDA, unknown on other accelerators
    times        microseconds of a step beside a dense program and pytorch-metric-learning

Without an accelerator the pretended one takes its place: it computes on the CPU, so results show that no step depends
on where its tensors are, waits and kernels are counted by rule, and there is no time of an accelerator at all.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from shadowmetric.app.doctor.devices.accelerator import device_name, find_accelerator
from shadowmetric.app.doctor.devices.loss_steps import Case, cases, takes_slots
from shadowmetric.app.doctor.devices.runs import Job, Outcome, Run, run_on, run_on_cpu, run_pretended
from shadowmetric.app.doctor.devices.times import time_on, use_threads
from shadowmetric.app.doctor.ranks.subject import describe_error
from shadowmetric.losses.catalogue import CONTROLS, LOSSES
from shadowmetric.mining import AllMiner, BatchHardMiner, HardMiner, SemiHardMiner
from shadowmetric.progress import Report
from shadowmetric.types import Miner

VALUE_TOLERANCE = 1e-5
GRADIENT_TOLERANCE = 1e-4
PRETENDED = "pretended"
SIZES = (32, 256)
ACCELERATOR_SIZES = (*SIZES, 1024, 4096)
LISTED_ROWS = 256  # the most of a batch whose triplets are all listed
MINERS: dict[str, Miner] = {
    "semi_hard": SemiHardMiner(),
    "semi_hard, all": SemiHardMiner(negatives="all"),
    "hard": HardMiner(),
    "batch_hard": BatchHardMiner(),
    "all": AllMiner(),
}


@dataclass(frozen=True)
class DeviceCheck:
    """A loss or a miner on the device beside the CPU. None is for what was not measured or cannot be told."""

    kind: str  # loss or miner
    name: str
    batch: int
    verdict: str  # equal: to the bit; close: within tolerance; different; failed
    value: float | None = None  # relative difference
    gradient: float | None = None
    waits: int | None = None
    kernels: int | None = None
    wait_lines: tuple[str, ...] = ()
    times_us: dict[str, float | str] | None = None  # by contender, on an accelerator only
    reason: str = ""

    @property
    def is_ok(self) -> bool:
        """Return whether the device gives what the CPU gives."""
        return self.verdict in ("equal", "close")


@dataclass(frozen=True)
class DeviceCertificate:
    """All checks of a device. has_accelerator: it was there; if not, nothing was timed on one."""

    device: str
    name: str
    has_accelerator: bool
    checks: tuple[DeviceCheck, ...]

    @property
    def is_ok(self) -> bool:
        """Return whether everything is as on the CPU."""
        return all(check.is_ok for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """Return everything in plain Python."""
        tolerances = {"value_tolerance": VALUE_TOLERANCE, "gradient_tolerance": GRADIENT_TOLERANCE}
        return {**asdict(self), **tolerances, "ok": self.is_ok}


def certify_device(report: Report | None = None) -> DeviceCertificate:
    """Check every loss and miner on the accelerator that is here, or on the pretended one."""
    device = find_accelerator()
    if device is None:
        with use_threads(1):  # many small steps; others may be using the cores
            checks = check_all(run_pretended, None, SIZES, report)
        return DeviceCertificate(PRETENDED, "a pretended accelerator", False, checks)
    checks = check_all(run_on(device), device, ACCELERATOR_SIZES, report)
    return DeviceCertificate(device.type, device_name(device), True, checks)


def check_all(
    run: Run, device: torch.device | None, sizes: tuple[int, ...], report: Report | None = None
) -> tuple[DeviceCheck, ...]:
    """Return the checks of all miners and losses at these sizes; device: that is timed, if any."""
    names = tuple(name for name in LOSSES if name not in CONTROLS)
    jobs: list[Case | tuple[str, int]] = []
    for size in sizes:
        jobs += [(name, size) for name in MINERS if size <= LISTED_ROWS or "all" not in name]
        jobs += cases(names, ("semi_hard", "hard", "batch_hard"), size, 128, 4)
    checks: list[DeviceCheck] = []
    for done, job in enumerate(jobs):
        if report is not None:
            report("losses and miners on the device", done / len(jobs))
        checks += check_loss(job, run, device) if isinstance(job, Case) else [check_miner(*job, run)]
    return tuple(checks)


def check_miner(name: str, size: int, run: Run) -> DeviceCheck:
    """Compare a miner's triplets with the CPU's, on rows of which some are equal."""
    embeddings, labels = Case("shadow", "", size).inputs()
    embeddings[1::8] = embeddings[::8]

    def judge(outcome: Outcome, wanted: Outcome) -> dict[str, Any]:
        same = all(map(torch.equal, outcome.results, wanted.results))
        return {"verdict": "equal" if same else "different"}

    return compare("miner", name, MINERS[name], (embeddings, labels), run, judge)


def check_loss(case: Case, run: Run, device: torch.device | None) -> list[DeviceCheck]:
    """Compare a loss with the CPU's, told its slots too if it takes them; time it where there is a device."""
    name = f"{case.loss} {case.miner}".strip()
    check = compare("loss", name, case.build(), case.inputs(), run, judge_loss)
    checks = [replace(check, times_us=time_on(device, case)) if device is not None and check.is_ok else check]
    if takes_slots(case.build()):
        checks.append(compare("loss", f"{name}, slots", case.build(slots=True), case.inputs(), run, judge_loss))
    return checks


def compare(
    kind: str,
    name: str,
    job: Job,
    inputs: tuple[Tensor, Tensor],
    run: Run,
    judge: Callable[[Outcome, Outcome], dict[str, Any]],
) -> DeviceCheck:
    """Run a job on the CPU and on the device, and judge what comes back."""
    batch, wanted = len(inputs[0]), run_on_cpu(job, *inputs)
    try:
        outcome = run(job, *inputs)
    except Exception as error:  # whatever a device cannot do is what the certificate is about
        return DeviceCheck(kind, name, batch, "failed", reason=describe_error(error))
    counters = {"waits": outcome.waits, "kernels": outcome.kernels, "wait_lines": outcome.wait_lines}
    return DeviceCheck(kind, name, batch, **judge(outcome, wanted), **counters)


def judge_loss(outcome: Outcome, wanted: Outcome) -> dict[str, Any]:
    """Return the differences of value and gradients, and what they mean."""
    value, *gradients = (relative(*pair) for pair in zip(outcome.results, wanted.results, strict=True))
    gradient = max(gradients)
    if value == gradient == 0:
        verdict = "equal"
    else:
        verdict = "close" if value <= VALUE_TOLERANCE and gradient <= GRADIENT_TOLERANCE else "different"
    return {"verdict": verdict, "value": value, "gradient": gradient}


def relative(result: Tensor, wanted: Tensor) -> float:
    """Return the largest difference as a share of the largest number; infinite where one is not a number."""
    if torch.equal(result, wanted):
        return 0.0
    difference = float((result - wanted).abs().max() / wanted.abs().max())
    return difference if difference == difference else float("inf")
