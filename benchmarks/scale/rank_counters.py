"""What a rank of a gloo group is measured by: seconds, held bytes, received bytes.

Of repeats the fastest counts, since what else the machine does only adds to it. Bytes are found twice: counted from
the shapes of what torch.distributed is called with, and as the kernel saw them on the loopback device.
"""

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch.distributed as dist
from torch import Tensor

from shadowmetric.batches.meter import peak_extra_bytes
from shadowmetric.ops.ranks import ranks_here

PEAKS = 3
DEVICES = Path("/proc/net/dev")


class Took(NamedTuple):
    """Seconds on the clock and of a core."""

    clock: float
    core: float


def fastest(action: Callable[[], object], repeats: int, warm_up: int = 1) -> Took:
    """Return the least of either that an action takes which all ranks begin together."""
    took = []
    for _ in range(warm_up + repeats):
        dist.barrier()
        began, core = time.perf_counter(), time.process_time()
        action()
        took.append((time.perf_counter() - began, time.process_time() - core))
    clock, core = zip(*took[warm_up:], strict=True)
    return Took(min(clock), min(core))


def middle_peak(action: Callable[[], object]) -> int | None:
    """Return the median of a few times by how much held memory rises: C's allocator is seldom twice the same."""
    peaks = [peak for _ in range(PEAKS) if (peak := peak_extra_bytes(action)) is not None]
    return int(statistics.median(peaks)) if peaks else None


@contextlib.contextmanager
def count_collectives() -> Iterator[dict[str, float]]:
    """Count the calls of torch.distributed, and the bytes that this rank must receive by them."""
    counts = {"calls": 0.0, "bytes": 0.0}
    rank, ranks = ranks_here()

    def bytes_of(tensor: Tensor) -> int:
        return tensor.numel() * tensor.element_size()

    received: dict[str, Callable[..., float]] = {
        "all_gather": lambda found, rows, *_: (ranks - 1) * bytes_of(rows),
        "all_gather_into_tensor": lambda found, rows, *_: bytes_of(found) - bytes_of(rows),
        "reduce_scatter": lambda own, parts, *_: (ranks - 1) * bytes_of(own),
        "all_reduce": lambda values, *_: 2 * (ranks - 1) / ranks * bytes_of(values),
        "_broadcast_coalesced": lambda group, tensors, *_: sum(map(bytes_of, tensors)) if rank else 0.0,
    }

    def noting(name: str) -> Callable[..., Any]:
        call = getattr(dist, name)

        def noted(*args: Any, **named: Any) -> Any:
            counts["calls"] += 1
            counts["bytes"] += received[name](*args)
            return call(*args, **named)

        return noted

    calls = {name: getattr(dist, name) for name in received}
    try:
        for name in received:
            setattr(dist, name, noting(name))
        yield counts
    finally:
        for name, call in calls.items():
            setattr(dist, name, call)


def loopback_bytes() -> int | None:
    """Return what the loopback device has received so far; None where the kernel does not say."""
    try:
        lines = DEVICES.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split(":")[1].split()[0]) for line in lines if line.strip().startswith("lo:")), None)


def cores_here() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
