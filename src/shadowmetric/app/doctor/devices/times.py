"""How long a step takes on an accelerator that is here: ours, the dense program and pytorch-metric-learning in turn.

The host waits for the device before and after each step, so a figure holds all of its work. Best of all rounds.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from shadowmetric.app.doctor.devices.accelerator import synchronize
from shadowmetric.app.doctor.devices.contenders import Contender, Program, contenders
from shadowmetric.app.doctor.devices.figures import figures_or_reason
from shadowmetric.app.doctor.devices.loss_steps import Case

ROUNDS = 5
ROUND_SECONDS = 0.03  # that a contender runs in a round


def time_on(device: torch.device, case: Case, rounds: int = ROUNDS) -> dict[str, float | str]:
    """Return microseconds of the best step by contender, or the reason why there are none."""
    embeddings, labels = (tensor.to(device) for tensor in case.inputs())
    embeddings.requires_grad_()
    field = [
        one._replace(program=one.program.to(device)) if isinstance(one.program, nn.Module) else one
        for one in contenders(case)
    ]
    times: dict[str, float | str] = {one.name: try_step(one, device, embeddings, labels) for one in field}
    for _ in range(rounds):
        for one in field:
            best = times[one.name]
            if one.program is not None and isinstance(best, float):
                times[one.name] = min(best, run_round(one.program, device, embeddings, labels))
    return times


def try_step(contender: Contender, device: torch.device, embeddings: Tensor, labels: Tensor) -> float | str:
    """Return infinity after a first step that is not counted, or the reason why there is none."""
    program = contender.program
    if program is None:
        return contender.reason
    figures = figures_or_reason(lambda: {"us": step_microseconds(program, device, embeddings, labels)}, contender.name)
    return str(figures["reason"]) if "reason" in figures else float("inf")


def run_round(program: Program, device: torch.device, embeddings: Tensor, labels: Tensor) -> float:
    """Run for a moment, at least once; return the microseconds of the best step."""
    start, best = time.perf_counter(), float("inf")
    while best == float("inf") or time.perf_counter() - start < ROUND_SECONDS:
        best = min(best, step_microseconds(program, device, embeddings, labels))
    return best


def step_microseconds(program: Program, device: torch.device, embeddings: Tensor, labels: Tensor) -> float:
    """Return the microseconds of one forward and backward, with all that the device does for it."""
    embeddings.grad = None
    synchronize(device)
    start = time.perf_counter()
    program(embeddings, labels).backward()
    synchronize(device)
    return (time.perf_counter() - start) * 1e6


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Let torch use so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
