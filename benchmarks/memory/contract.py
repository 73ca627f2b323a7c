"""The memory contract, job by job: what a loss or miner promises beside what it takes. Also the process of a job.

`python -m benchmarks.memory.contract JOB_AS_JSON`

    predicted   the formula of the loss or miner (`ops/memory.py`) at this size
    counted     live tensors at their most, forward and backward (`live_bytes`)
    resident    how far resident memory rose in the same step without counting; allocators, BLAS buffers and Python's
                own objects are in it, so it may be above the formula where the counted bytes are not: glibc keeps
                freed blocks, and MALLOC_MMAP_THRESHOLD_=65536 in the environment makes it return them
    kept        live tensors between forward and backward, beside the formula's figure

A row is `over` if counted or kept is more than predicted.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.answer import answer
from benchmarks.memory.live_bytes import count_live_bytes
from benchmarks.run import kind
from shadowmetric import mining
from shadowmetric.app.doctor.devices.figures import Figures, figures_or_reason
from shadowmetric.batches.meter import peak_extra_bytes
from shadowmetric.losses.catalogue import CONTROLS, LOSSES, build_loss
from shadowmetric.losses.proxies import ProxyLoss
from shadowmetric.losses.shadow import ShadowLoss
from shadowmetric.mining.classes import positive_pairs
from shadowmetric.ops.memory import Sizes

MEMORY = kind(
    "benchmarks.memory.contract",
    *("name", "batch", "dim", "per_class", "scratch_mb", "dtype", "seed", "positives", "triplets"),
    *("formula", "predicted_bytes", "counted_bytes", "resident_bytes", "counted_share"),
    *("kept_formula", "kept_predicted_bytes", "kept_bytes", "over", "reason"),
)
DTYPES = ("float16", "bfloat16", "float32", "float64")
WARM_UP_ROWS = 16
MOST_LISTED = 2**30  # bytes of a list of triplets
MARGIN = 0.2


@dataclass(frozen=True)
class MemoryJob:
    """One loss or miner at one size."""

    name: str
    batch: int
    dim: int
    per_class: int = 5
    scratch_mb: int = 32
    dtype: str = "float32"
    seed: int = 0

    @property
    def scratch_bytes(self) -> int:
        """Return the scratch in bytes."""
        return self.scratch_mb * 2**20


def _name_terms(name: str) -> Callable[[MemoryJob], Any]:
    def built(job: MemoryJob) -> nn.Module:
        loss: Any = build_loss(name, margin=MARGIN, miner="semi_hard", classes=_classes(job), dim=job.dim)
        loss.scratch_bytes = job.scratch_bytes
        if hasattr(loss, "miner"):
            loss.miner = replace(loss.miner, scratch_bytes=job.scratch_bytes)
        return loss

    return built


SUBJECTS: dict[str, Callable[[MemoryJob], Any]] = {
    **{name: _name_terms(name) for name in LOSSES if name not in CONTROLS},
    "shadow, all": lambda job: ShadowLoss(MARGIN, miner="all", scratch_bytes=job.scratch_bytes),
    "hard miner": lambda job: mining.HardMiner(scratch_bytes=job.scratch_bytes),
    "batch-hard miner": lambda job: mining.BatchHardMiner(scratch_bytes=job.scratch_bytes),
    "semi-hard miner": lambda job: mining.SemiHardMiner(MARGIN, scratch_bytes=job.scratch_bytes),
    "semi-hard miner, random": lambda job: mining.SemiHardMiner(MARGIN, "random", scratch_bytes=job.scratch_bytes),
    "semi-hard miner, all": lambda job: mining.SemiHardMiner(MARGIN, "all", scratch_bytes=job.scratch_bytes),
    "all miner": lambda job: mining.AllMiner(),
}
LISTS = ("semi-hard miner, all", "all miner")


def skip_reason(job: MemoryJob) -> str | None:
    """Return why a job is not run: a miner that would list too many triplets."""
    listed = 48 * job.batch * (job.per_class - 1) * max(job.batch - job.per_class, 0)
    if job.name in LISTS and listed > MOST_LISTED:
        return f"would list triplets of up to {listed / 1e9:.1f} GB; a loss streams them: see shadow, all"
    return None


def inputs(job: MemoryJob) -> tuple[Tensor, Tensor]:
    """Return random rows and the labels of whole classes, in mixed order."""
    generator = torch.Generator().manual_seed(job.seed)
    labels = (torch.arange(job.batch) // job.per_class)[torch.randperm(job.batch, generator=generator)]
    return torch.randn(job.batch, job.dim, generator=generator).to(getattr(torch, job.dtype)), labels


def figures(job: MemoryJob) -> Figures:
    """Measure the job here and now: resident memory first, in a process that has done nothing of this size yet."""
    tiny = replace(job, batch=WARM_UP_ROWS)
    _backward(_step(SUBJECTS[job.name](tiny), *inputs(tiny))())
    subject: Any = SUBJECTS[job.name](job)
    embeddings, labels = inputs(job)
    cost = subject.memory(embeddings.dtype)
    step = _step(subject, embeddings, labels)
    resident = peak_extra_bytes(lambda: _backward(step()))
    embeddings.grad = None
    parameters = list(subject.parameters()) if isinstance(subject, nn.Module) else []
    for parameter in parameters:
        parameter.grad = None
    outputs: list[Any] = []

    def once() -> Any:
        outputs[:] = [step()]
        return outputs[0] if isinstance(outputs[0], Tensor) else None

    count = count_live_bytes(once, [embeddings, labels, *parameters])
    triplets = 0 if isinstance(outputs[0], Tensor) else len(outputs[0].anchor)
    centers = len(subject.centers) if isinstance(subject, ProxyLoss) else 0
    sizes = Sizes(job.batch, job.dim, positive_pairs(labels), triplets, centers=centers)
    peak, kept = cost.peak(sizes), cost.kept.at(sizes)
    return {
        "positives": sizes.positives,
        "triplets": triplets or None,
        "formula": str(cost),
        "predicted_bytes": peak,
        "counted_bytes": count.peak,
        "resident_bytes": resident,
        "counted_share": count.peak / peak,
        "kept_formula": str(cost.kept),
        "kept_predicted_bytes": kept,
        "kept_bytes": count.kept,
        "over": count.peak > peak or count.kept > kept,
    }


def record(job: MemoryJob) -> Figures:
    """Return the job's figures, or the reason why there are none."""
    return figures_or_reason(lambda: figures(job), "shadowmetric")


def _classes(job: MemoryJob) -> int:
    return -(-job.batch // job.per_class)


def _step(subject: Any, embeddings: Tensor, labels: Tensor) -> Callable[[], Any]:
    if isinstance(subject, nn.Module):
        embeddings.requires_grad_()
    return lambda: subject(embeddings, labels)


def _backward(value: Any) -> None:
    if isinstance(value, Tensor):
        value.backward()


if __name__ == "__main__":
    answer(MemoryJob, record)
