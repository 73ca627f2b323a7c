"""A whole training step, embedder included: memory above the idle state, and time.

    plain     embedder(images), loss, backward: what everybody writes
    cached    `cached_backward`, micro_batch images at a time
    pml       plain, with pytorch-metric-learning's semi-hard miner and triplet loss

Each in a process of its own. Idle is: libraries, weights, and a warm-up of two images. A step makes its images
(uint8), embeds them, takes the loss and its gradient; gradients of the weights count, the optimizer does not. Images
are random, 4 of a class; batch normalization is frozen, so that plain and cached compute the same.

Run one with `python -m benchmarks.step.steps JOB_AS_JSON`.
"""

import importlib.metadata
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks.answer import answer
from benchmarks.measure import megabytes
from benchmarks.run import kind
from shadowmetric.app.doctor.devices.figures import Figures, figures_or_reason
from shadowmetric.app.models import Embedder, build_embedder
from shadowmetric.batches.cached import cached_backward
from shadowmetric.batches.meter import peak_extra_bytes
from shadowmetric.losses import ShadowLoss

COLUMNS = ("contender", "backbone", "size", "batch", "micro_batch", "dim", "repeats")
FIGURES = ("peak_extra_mb", "seconds", "images_per_second", "loss", "gradient", "version", "reason")
STEPS = kind("benchmarks.step.steps", *COLUMNS, *FIGURES)
PER_CLASS = 4


@dataclass(frozen=True)
class StepJob:
    """One way to take a step."""

    contender: str
    backbone: str
    size: int
    batch: int
    micro_batch: int | None = None
    dim: int = 64
    repeats: int = 0


def figures(job: StepJob) -> Figures:
    """Measure the job here and now."""
    embedder = build_embedder(job.backbone, dim=job.dim, channels=3, size=job.size, seed=0, freeze_batch_norm=True)
    embedder.to(memory_format=torch.channels_last).train()  # pyright: ignore[reportCallIssue]
    step = CONTENDERS[job.contender]
    step(embedder, *make_images(2, job.size), 2)
    embedder.zero_grad()
    values: list[float] = []
    seconds: list[float] = []

    def action() -> None:
        embedder.zero_grad()
        began = time.perf_counter()
        values.append(step(embedder, *make_images(job.batch, job.size), job.micro_batch or job.batch))
        seconds.append(time.perf_counter() - began)

    peak = peak_extra_bytes(action)
    for _ in range(job.repeats):
        action()
    best = min(seconds)
    gradient = [parameter.grad for parameter in embedder.parameters() if parameter.grad is not None]
    return {
        "peak_extra_mb": megabytes(peak),
        "seconds": best,
        "images_per_second": job.batch / best,
        "loss": values[0],
        "gradient": float(torch.stack([part.norm() for part in gradient]).norm()),
        "version": importlib.metadata.version("pytorch-metric-learning" if job.contender == "pml" else "shadowmetric"),
    }


def make_images(batch: int, size: int) -> tuple[Tensor, Tensor]:
    """Return random images, and labels of four images a class."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (batch, 3, size, size), dtype=torch.uint8, generator=generator)
    return images, torch.arange(batch) // min(PER_CLASS, batch)


def plain(embedder: Embedder, images: Tensor, labels: Tensor, micro_batch: int) -> float:
    """Take the step as a whole."""
    return _backward(ShadowLoss(), embedder(images), labels)


def take_cached_step(embedder: Embedder, images: Tensor, labels: Tensor, micro_batch: int) -> float:
    """Take the step in micro-batches."""
    return float(cached_backward(embedder, images, labels, ShadowLoss(), micro_batch))


def pml(embedder: Embedder, images: Tensor, labels: Tensor, micro_batch: int) -> float:
    """Take the step as a whole, with the peer's miner and loss."""
    from pytorch_metric_learning.losses import TripletMarginLoss
    from pytorch_metric_learning.miners import TripletMarginMiner

    miner, loss = TripletMarginMiner(margin=0.2, type_of_triplets="semihard"), TripletMarginLoss(margin=0.2)

    class Mined(nn.Module):
        def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
            return loss(rows, labels, miner(rows, labels))

    return _backward(Mined(), embedder(images), labels)


CONTENDERS: dict[str, Callable[[Embedder, Tensor, Tensor, int], float]] = {
    "plain": plain,
    "cached": take_cached_step,
    "pml": pml,
}


def _backward(loss: nn.Module, rows: Tensor, labels: Tensor) -> float:
    value = loss(rows, labels)
    value.backward()
    return float(value.detach())


def record(job: StepJob) -> Figures:
    """Return the job's figures, or the reason why there are none."""
    return figures_or_reason(lambda: figures(job), "pytorch-metric-learning")


if __name__ == "__main__":
    answer(StepJob, record)
