"""A batch of 4,096 images in 1 GB: one training step of semi-hard Shadow, libraries included.

    python examples/large_batch.py                        small_cnn, 4,096 images of 64 pixels
    python examples/large_batch.py --backbone resnet18 --size 32     more than five minutes on two cores

What fills memory is what autograd keeps of each image until backward, not the loss. `sm.cached_backward` embeds a few
images at a time, without a graph; takes the loss of all 4,096 rows, so that every pair of the batch counts; and
embeds the same few again, with a graph, to send their share of the gradient back. The weights receive the gradient of
the whole batch.

It prints

1. the plan: bytes that an image takes, how many of them fit at once, the peak that is predicted
2. the step: seconds, and the peak that the kernel saw since the process began, as `top` would show it
3. what the plain step would take, by two that are small enough to be measured: a line through them, so an estimate
4. that both are one step: the gradients of a small batch, computed both ways

Ours, on two cores: 843 MB at the peak, 837 predicted, 585 of them libraries; 13 s, 512 images at a time. The
plain step would add 1.31 GB to the 585 MB. ResNet-18 at 32 pixels keeps 15 times as much of each image and was only
run with --batch 64: 925 MB at the peak, 935 predicted. Memory is read from /proc, so the figures need Linux.
"""

import argparse
import copy
import sys
import time
from typing import NamedTuple

import torch
from torch import Tensor

import shadowmetric as sm
from shadowmetric.app.models import Embedder, build_embedder
from shadowmetric.batches.budget import Needs, Plan, least_micro_batch, make_plan, parse_bytes, probe_embedder
from shadowmetric.batches.budget import format_bytes as said
from shadowmetric.batches.meter import give_back_at_once, held_bytes, peak_bytes, peak_extra_bytes
from shadowmetric.errors import Mistake
from shadowmetric.ops.memory import Sizes

DIM, PER_CLASS = 64, 4
SCRATCH = 4 * 2**20  # bytes that mining may use beside the rows
PLAIN = 128, 256  # batches whose plain step is measured


class Found(NamedTuple):
    """What the example has shown."""

    apart: float  # largest difference of two gradients of the small batch, over the largest number in it
    plan: Plan
    peak: int | None  # bytes, measured; None where there is no /proc
    plain: int | None  # bytes that the plain step would take, estimated
    seconds: float


def make_images(count: int, size: int) -> tuple[Tensor, Tensor]:
    """Return random images, and labels of four images a class."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8, generator=generator)
    return images, torch.arange(count) // PER_CLASS


def loss() -> sm.ShadowLoss:
    """Return semi-hard Shadow that keeps its temporary numbers small."""
    return sm.ShadowLoss(margin=0.2, scratch_bytes=SCRATCH)


def plain_step(embedder: Embedder, images: Tensor, labels: Tensor) -> None:
    """Take the step that everybody writes."""
    loss()(embedder(images), labels).backward()


def plan_for(embedder: Embedder, batch: int, size: int, budget: int) -> Plan:
    """Return how many images to embed at once: measure a small step, then do the sum."""
    weights = sum(weight.numel() * weight.element_size() for weight in embedder.parameters())
    probe = probe_embedder(embedder, make_images(16, size)[0], most=64 * 10**6)
    needs = Needs(
        held=held_bytes() or 0,
        optimizer=0,  # one step, and none is taken with its gradient
        gradients=weights,
        images=batch * 3 * size**2,
        rows=3 * batch * DIM * 4,
        loss=loss().memory().peak(Sizes(rows=batch, dim=DIM, positives=batch * (PER_CLASS - 1))) - SCRATCH,
        evaluation=0,
    )
    return make_plan(budget, needs, probe, batch, least=least_micro_batch(embedder), scratch=SCRATCH)


def estimated(embedder: Embedder, batch: int, size: int) -> int | None:
    """Return what the plain step of a batch would add, by a line through two that are measured."""
    small, large = PLAIN
    found = [
        peak_extra_bytes(lambda count=count: plain_step(embedder, *make_images(count, size)))
        for count in (small, large)
    ]
    if found[0] is None or found[1] is None:
        return None
    return found[0] + (batch - small) * (found[1] - found[0]) // (large - small)


def gradients_apart(embedder: Embedder, size: int) -> float:
    """Return how far the gradients of both ways are apart, as a share of the largest number."""
    one, other = copy.deepcopy(embedder).double(), copy.deepcopy(embedder).double()
    images, labels = make_images(16, size)
    plain_step(one, images, labels)
    sm.cached_backward(other, images, labels, loss(), micro_batch=4)
    pairs = [(a.grad, b.grad) for a, b in zip(one.parameters(), other.parameters(), strict=True) if a.grad is not None]
    largest = max(float(a.abs().max()) for a, _ in pairs)
    return max(float((a - b).abs().max()) for a, b in pairs if b is not None) / largest


def main(arguments: list[str] | None = None) -> Found:
    """Print the four parts."""
    parser = argparse.ArgumentParser(description="A batch larger than memory.")
    parser.add_argument("--batch", type=int, default=4096, help="images in the batch")
    parser.add_argument("--memory-budget", default="1GB", help="of the whole process, libraries included")
    parser.add_argument("--backbone", default="small_cnn", help="of the embedder")
    parser.add_argument("--size", type=int, default=64, help="pixels of an image's side")
    options = parser.parse_args(arguments)
    give_back_at_once()  # freed memory goes back to the kernel, else it would still count
    embedder = build_embedder(options.backbone, dim=DIM, size=options.size, freeze_batch_norm=True).train()
    embedder.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]

    plan = plan_for(embedder, options.batch, options.size, parse_bytes(options.memory_budget))
    print(f"1. {plan.sentence()}", flush=True)

    images, labels = make_images(options.batch, options.size)
    began = time.perf_counter()
    value = sm.cached_backward(embedder, images, labels, loss(), plan.micro_batch)
    seconds, peak = time.perf_counter() - began, peak_bytes()
    print(f"2. The step of {options.batch:,} images: loss {float(value):.4f}, {seconds:.0f} s.")
    if peak is not None:
        print(f"   {plan.outcome(peak)}")

    embedder.zero_grad()
    plain = estimated(embedder, options.batch, options.size)
    if plain is not None:
        print(f"3. The plain step would add about {said(plain)}: a line through those of {PLAIN[0]} and {PLAIN[1]}.")

    apart = gradients_apart(embedder, options.size)
    print(f"4. Gradients of 16 images, whole and 4 at a time, in float64: apart by {apart:.0e} of the largest.")
    return Found(apart, plan, peak, plain, seconds)


if __name__ == "__main__":
    try:
        main()
    except Mistake as error:  # such as a folder that is not there: a sentence, and no traceback
        sys.exit(str(error))
