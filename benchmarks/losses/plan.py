"""Which jobs a bench has, what each is expected to cost, and which are skipped, with the reason.

A job is one contender at one (S, D): S rows in the batch, D numbers a row. The expectations are rough
on purpose; they decide what is skipped and drive the estimate of what remains, and no table shows them.

    memory   pml   a cube of S*S*S bytes while that is below 2**31, else lists of all triplets (56 bytes each)
             st    about 80 bytes for each of the S*S pairs
             ours  the gradient, a copy of the rows and a scratch of fixed size
    time     products of 2*S*S*D operations at the speed that this machine just showed; peers by their own rates
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.losses.contenders import BLOCK_ROWS
from benchmarks.losses.peers import PREFIX, peer_bytes
from benchmarks.measure import PATIENCE_SECONDS
from benchmarks.run import kind

LOSSES = kind(
    "benchmarks.losses.worker",
    *("contender", "batch", "dim", "per_class", "seed", "clustered", "repeats"),
    *("forward_ms", "backward_ms", "total_ms", "spread", "product_ms", "ratio_to_product"),
    *("peak_extra_mb", "kept_bytes", "reason", "version"),
)

BATCHES = (32, 256, 1024, 4096, 8192)
DIMS = (128, 512)
FULL_BATCHES = (*BATCHES, 65536)
FULL_DIMS = (64, 128, 512, 2048)

PEERS = ("pml", "st")
PEER_ROWS = 8192  # beyond this a peer's step takes minutes and tens of gigabytes
MEMORY_SHARE = 0.6
LARGEST_CUBE = torch.iinfo(torch.int32).max
START_SECONDS = {"pml": 9.0, "st": 20.0}  # imports; the others need START_OF_TORCH
START_OF_TORCH = 4.0


@dataclass(frozen=True)
class Job:
    """One contender at one size."""

    contender: str
    batch: int
    dim: int
    per_class: int = 5
    repeats: int = 5
    seed: int = 0
    clustered: bool = False


@dataclass(frozen=True)
class Machine:
    """What the plan needs to know of the machine; None is unknown."""

    available_bytes: int | None
    operations_per_second: float


def this_machine() -> Machine:
    """Return this machine's free memory and its speed in a small matrix product."""
    return Machine(_available_bytes(), _product_speed())


def check_sizes(name: str, values: tuple[int, ...] | list[int], least: int = 1) -> None:
    """Refuse a number below the least, in one sentence."""
    for value in values:
        if value < least:
            raise ValueError(f"{name} is {value}; it must be {least} or more.")


def triplet_count(job: Job) -> int:
    """Return how many (anchor, positive, negative) there are in the batch, mined or not."""
    return job.batch * (min(job.per_class, job.batch) - 1) * max(job.batch - job.per_class, 0)


def expected_bytes(job: Job) -> int:
    """Return roughly what the job needs beyond the libraries."""
    rows = 4 * job.batch * job.dim
    if job.contender == "pml":
        cube = job.batch**3
        return (cube if cube < LARGEST_CUBE else 0) + 56 * triplet_count(job) + 3 * rows
    if job.contender.startswith(PREFIX):
        return peer_bytes(job.contender.removeprefix(PREFIX), job.batch, -(-job.batch // job.per_class)) + 3 * rows
    if job.contender == "st":
        return 80 * job.batch**2 + 3 * rows
    if job.contender == "algorithm-1":
        return 8 * rows * max(job.per_class - 1, 1)
    return 3 * rows + 4 * BLOCK_ROWS * job.batch + 64 * 2**20


def step_seconds(job: Job, operations_per_second: float) -> float:
    """Return roughly how long one forward and backward takes."""
    product = 2 * job.batch**2 * job.dim / operations_per_second
    if job.contender == "pml":
        return product + 6e-8 * triplet_count(job)
    if job.contender == "st":
        return product + 1.9e-7 * job.batch**2
    return product if job.contender == "bare-product" else 2 * product


def expected_seconds(job: Job, machine: Machine) -> float:
    """Return roughly how long the job's process lives."""
    step = step_seconds(job, machine.operations_per_second)
    product = step_seconds(replace(job, contender="bare-product"), machine.operations_per_second)
    timed = sum(min(job.repeats * once, PATIENCE_SECONDS + once) for once in (product, step, product))
    return START_SECONDS.get(job.contender, START_OF_TORCH) + 2 * step + product + timed


def skip_reason(job: Job, machine: Machine, timeout: float) -> str | None:
    """Return why the job is not run, or None if it is."""
    needed, available = expected_bytes(job), machine.available_bytes
    if available is not None and needed > MEMORY_SHARE * available:
        return (
            f"needs about {needed / 1e9:.1f} GB, more than {MEMORY_SHARE:.0%} of the {available / 1e9:.1f} GB available"
        )
    if job.contender in PEERS and job.batch > PEER_ROWS:
        return f"above {PEER_ROWS} rows its S×S tensors make a step take minutes (about {needed / 1e9:.1f} GB here)"
    seconds = expected_seconds(replace(job, repeats=1), machine)
    if seconds > timeout:
        return f"would take about {seconds:.0f} s, more than the limit of {timeout:.0f} s"
    return None


def _available_bytes() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _product_speed(side: int = 768) -> float:
    square = torch.ones(side, side)
    return 2 * side**3 / min(_seconds_of_product(square) for _ in range(5))


def _seconds_of_product(square: Tensor) -> float:
    start = time.perf_counter()
    torch.mm(square, square)
    return time.perf_counter() - start
