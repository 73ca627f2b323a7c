"""A training step within a memory budget: measure the embedder once, then choose the micro-batch.

    peak = held + optimizer + images + rows + max( gradients + step + per_image x micro_batch,  gradients + loss )

held          resident memory before training: libraries, data, weights (`meter.py`)
per_image     bytes that autograd keeps of one image, counted exactly; and the largest tensor of them once more, for the
              gradients that pass by (within 3 % on resnet18 and efficientnet_lite0). Workspaces may grow with images
              too: if two measured steps say more, that counts, up to a half more
step          the rest of a step, whatever its size: gradients of the weights and workspaces; measured as the peak of a
              step of a few images less per_image x its images
gradients     of the weights: those of earlier micro-batches are there while the next one is embedded
images, rows  the logical batch itself, and 3 numbers for each number of its embeddings
loss          what mining and the loss need beyond the rows (their memory contract)

On two cores the prediction was 4 and 6 % low (LOG.md). Worker processes that read images
come on top.
"""

import re
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from shadowmetric.batches.cached import uses_batch_statistics
from shadowmetric.batches.meter import peak_extra_bytes
from shadowmetric.errors import Mistake

UNITS = {"M": 10**6, "G": 10**9, "T": 10**12, "MI": 2**20, "GI": 2**30, "TI": 2**40}
LEAST_SCRATCH = 2**20
ROOM = 0.95  # of the budget that a plan may fill: a prediction is not exact
PROBE_BYTES = 256 * 10**6  # that a probe may take
COPIES_OF_IMAGES = 5  # the batch before, pixels chosen, framed, cut, mirrored


def parse_bytes(text: str) -> int:
    """Return the bytes of "2GB", "512 MiB" or "1.5g"."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([MGT]I?)B?\s*", text.upper())
    if not match or float(match[1]) <= 0:
        raise Mistake(f"--memory-budget is {text!r}; give a number with a unit, such as 2GB or 512MB.")
    return int(float(match[1]) * UNITS[match[2]])


def format_bytes(count: float | int) -> str:
    """Return bytes as people say them."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.2f} {unit}" if unit == "GB" else f"{count / size:.0f} {unit}"
    return f"{count / 1e3:.0f} kB"


@dataclass(frozen=True)
class Probe:
    """What a step of the embedder takes, in bytes."""

    per_image: int
    step: int

    def bytes(self, images: int) -> int:
        """Return the peak of a forward and backward pass over so many images."""
        return self.step + self.per_image * images


@dataclass(frozen=True)
class Needs:
    """What a run needs besides the step of its embedder, in bytes."""

    held: int
    optimizer: int
    gradients: int
    images: int  # the logical batch, of this rank
    rows: int
    loss: int  # beyond the scratch
    evaluation: int  # beyond the scratch

    def peak(self, step: int, scratch: int) -> int:
        """Return the most that is held at once."""
        training = self.images + self.rows + max(step, self.gradients + self.loss + scratch)
        making = COPIES_OF_IMAGES * self.images
        return self.held + self.optimizer + max(training, making, self.evaluation + 3 * scratch)


@dataclass(frozen=True)
class Plan:
    """How a run keeps within its budget."""

    budget: int
    needs: Needs
    probe: Probe
    batch: int  # images of a logical batch on this rank
    micro_batch: int
    scratch: int

    @property
    def predicted(self) -> int:
        """Return the predicted peak."""
        before = self.needs.gradients if self.micro_batch < self.batch else 0  # of the micro-batches that are done
        return self.needs.peak(before + self.probe.bytes(self.micro_batch), self.scratch)

    def sentence(self) -> str:
        """Say the plan and what it predicts."""
        whole = self.micro_batch >= self.batch
        how = "embedded whole" if whole else f"embedded {self.micro_batch} at a time"
        return (
            f"Memory: {format_bytes(self.needs.held)} are held already; a batch of {self.batch} images, {how} "
            f"({format_bytes(self.probe.per_image)} an image and {format_bytes(self.probe.step)} a step), and a scratch of "
            f"{format_bytes(self.scratch)}: {format_bytes(self.predicted)} predicted at the peak, of a budget of "
            f"{format_bytes(self.budget)}."
        )

    def outcome(self, measured: int) -> str:
        """Say what was measured beside what was predicted."""
        off = 100 * (self.predicted - measured) / measured
        within = "within" if measured <= self.budget else "OVER"
        return (
            f"Memory: {format_bytes(measured)} measured at the peak, {format_bytes(self.predicted)} predicted "
            f"({off:+.0f} %), {within} the budget of {format_bytes(self.budget)}."
        )


def make_plan(
    budget: int,
    needs: Needs,
    probe: Probe,
    batch: int,
    *,
    micro_batch: int | None = None,
    least: int = 1,
    scratch: int,
) -> Plan:
    """Return the largest micro-batch within the budget, with as much scratch as is wished for or fits.

    micro_batch: the one that must be kept to. least: the smallest that the embedder can be trained with.
    """
    wishes = sorted({scratch, *(size for size in (2**22, LEAST_SCRATCH) if size < scratch)}, reverse=True)
    sizes = [batch, *(2**power for power in range(20, -1, -1) if least <= 2**power < batch)]
    sizes = sizes if micro_batch is None else [min(micro_batch, batch)]
    for size in sizes:
        for some in wishes:
            plan = Plan(budget, needs, probe, batch, size, some)
            if plan.predicted <= ROOM * budget:
                return plan
    smallest = Plan(budget, needs, probe, batch, sizes[-1], wishes[-1])
    enough = format_bytes(1.01 * smallest.predicted / ROOM)
    raise Mistake(
        f"--memory-budget is {format_bytes(budget)}; the smallest that will do is {enough}: "
        f"{format_bytes(needs.held)} are held before training, {format_bytes(needs.optimizer)} are the optimizer's, "
        f"{format_bytes(probe.bytes(sizes[-1]))} a step of {sizes[-1]} image(s), {format_bytes(needs.images)} the images "
        "of a batch. Raise it, or use a smaller --logical-batch, --size or --backbone."
    )


def probe_embedder(embedder: nn.Module, images: Tensor, most: int) -> Probe:
    """Measure a small step; buffers, generators and gradients are put back. most: bytes that it may take."""
    device = next(embedder.parameters()).device
    buffers = [(buffer, buffer.clone()) for buffer in embedder.buffers()]
    gradients = [(parameter, parameter.grad) for parameter in embedder.parameters()]
    with torch.random.fork_rng():
        two, four = (kept_bytes(embedder, images[:count]) for count in (2, 4))
        per_image = max((sum(four) - sum(two)) // 2 + max(four) // 4, 1)
        least = least_micro_batch(embedder)  # batch normalization may refuse a single image
        count = max(4 * least, min(len(images), min(most, PROBE_BYTES) // per_image))
        backward_pass(embedder, images[:count])  # libraries make their workspaces
        small, peak = (
            peak_extra_bytes(lambda some=some: backward_pass(embedder, images[:some]), device)
            for some in (count // 4, count)
        )
    for buffer, before in buffers:
        buffer.data.copy_(before)
    for parameter, gradient in gradients:
        parameter.grad = gradient
    weights = sum(parameter.numel() * parameter.element_size() for parameter, _ in gradients if parameter.requires_grad)
    if small is None or peak is None:
        return Probe(per_image, 2 * weights)
    seen = (peak - small) // (count - count // 4)
    per_image = min(max(per_image, seen), per_image * 3 // 2)
    return Probe(per_image, max(peak - count * per_image, weights))


def kept_bytes(embedder: nn.Module, images: Tensor) -> list[int]:
    """Return the sizes of what autograd keeps of a forward pass, besides weights and images."""
    return measure_saved_bytes(lambda: embedder(images), (*embedder.parameters(), *embedder.buffers(), images))


def measure_saved_bytes(forward: Callable[[], Any], known: Iterable[Tensor]) -> list[int]:
    """Return the sizes of what autograd keeps of a forward pass, besides what is known.

    A graph inside of the pass, whose slopes are taken at once, is gone when it ends, and so is what it kept.
    """
    own = {tensor.untyped_storage()._cdata for tensor in known}
    storages: dict[int, int] = {}

    def note(saved: Tensor) -> Tensor:
        storage = saved.untyped_storage()
        key = storage._cdata
        if key not in own and key not in storages:
            storages[key] = storage.nbytes()
            weakref.finalize(storage, storages.pop, key).atexit = False
        return saved.detach()  # an output that its own node holds would never be freed

    with torch.autograd.graph.saved_tensors_hooks(note, lambda saved: saved):
        output = forward()
    sizes = list(storages.values())
    del output
    return sizes


def backward_pass(embedder: nn.Module, images: Tensor) -> None:
    """Take a step, and leave no gradients behind."""
    embedder(images).sum().backward()
    for parameter in embedder.parameters():
        parameter.grad = None


def least_micro_batch(embedder: nn.Module) -> int:
    """Return the smallest micro-batch that an embedder can be trained with: statistics take two images."""
    return 2 if uses_batch_statistics(embedder) else 1
