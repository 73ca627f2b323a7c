"""One step of a loss, or one call of a miner, on the CPU, on an accelerator, and on the pretended one.

All three get the same rows, labels and weights, and give tensors on the CPU: a value with its gradients, or triplets.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from shadowmetric.app.doctor.devices.accelerator import record_waits, synchronize
from shadowmetric.app.doctor.devices.loss_steps import split_weights
from shadowmetric.app.doctor.devices.pretended_device import count_forward, count_step
from shadowmetric.types import Miner

Job = nn.Module | Miner  # called with (embeddings, labels)


class Outcome(NamedTuple):
    """Results on the CPU, and what the device was asked; None is for what cannot be told."""

    results: tuple[Tensor, ...]
    waits: int | None = None
    kernels: int | None = None
    wait_lines: tuple[str, ...] = ()


Run = Callable[[Job, Tensor, Tensor], Outcome]


def run_on_cpu(job: Job, embeddings: Tensor, labels: Tensor) -> Outcome:
    """Run here."""
    return Outcome(run_plain(job, embeddings, labels))


def run_on(device: torch.device) -> Run:
    """Return what runs a job on an accelerator, once to warm up and once to count the host's waits."""

    def run(job: Job, embeddings: Tensor, labels: Tensor) -> Outcome:
        there = job.to(device) if isinstance(job, nn.Module) else job
        rows, classes = embeddings.to(device), labels.to(device)
        run_plain(there, rows, classes)
        synchronize(device)
        with record_waits(device) as lines:
            results = run_plain(there, rows, classes)
        on_cpu = tuple(result.cpu() for result in results)
        if lines is None:
            return Outcome(on_cpu)
        return Outcome(on_cpu, waits=len(lines), wait_lines=tuple(dict.fromkeys(lines)))

    return run


def run_pretended(job: Job, embeddings: Tensor, labels: Tensor) -> Outcome:
    """Run on the pretended accelerator."""
    if isinstance(job, nn.Module):
        step, weights = split_weights(job)
        counts = count_step(step, embeddings, labels, *weights)
        results = tuple(result for result in (counts.value, *counts.gradients) if result is not None)
    else:
        counts, triplets = count_forward(job, embeddings, labels)
        results = tuple(triplets)
    if counts.mixes:
        place = counts.mixes[0]
        raise RuntimeError(f"{place.what} at {place.line} mixes devices")
    lines = tuple(dict.fromkeys(place.line for place in counts.wait_places))
    return Outcome(results, counts.waits, counts.kernels, lines)


def run_plain(job: Job, embeddings: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
    """Return value and gradients of a loss, of its weights too, or the triplets of a miner."""
    if not isinstance(job, nn.Module):
        return tuple(job(embeddings, labels))
    job.zero_grad()
    rows = embeddings.detach().clone().requires_grad_()
    value = job(rows, labels)
    value.backward()
    gradients = [rows.grad, *(weight.grad for weight in job.parameters())]
    return value.detach(), *(gradient.clone() for gradient in gradients if gradient is not None)
