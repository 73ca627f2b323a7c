"""How a step is weighed: its time, the memory it adds at its peak, the bytes it keeps for backward.

Time. The bare product is timed just before and just after the step, in the same process: whatever slows
the machine slows both, so their ratio holds where the milliseconds do not. Not in turn with it, though:
after a large step a small product finds its caches cold and takes five times as long (tried), which
would flatter every ratio. Each figure is a median. A series of repeats ends early once it has taken
PATIENCE_SECONDS.

Peak memory. Resident memory at its highest during the first full step, less what was resident just
before, when libraries, inputs and a tiny warm-up were done (`batches/meter.py`). The gradient of the
embeddings counts.

Kept bytes. Every tensor that autograd saves passes a hook, which adds up the storages: each once, and
not the embeddings', which the encoder holds anyway. What a custom function hides on its context
instead of saving it is not seen.
"""

import statistics
import time
from collections.abc import Iterable
from typing import NamedTuple

from torch import Tensor

from benchmarks.losses.contenders import Forward
from shadowmetric.batches.budget import measure_saved_bytes

PATIENCE_SECONDS = 30.0


class Times(NamedTuple):
    """Medians in milliseconds of `repeats` steps, and how far the totals spread around theirs.

    spread: (slowest - fastest) / median. Near zero on a quiet machine; above 0.5 something else was running.
    """

    forward: float
    backward: float | None
    total: float
    product: float
    spread: float
    repeats: int


def step(forward: Forward, embeddings: Tensor) -> tuple[float, float]:
    """Run one forward and backward pass; return the seconds of each."""
    embeddings.grad = None
    start = time.perf_counter()
    value = forward()
    middle = time.perf_counter()
    if value is not None:
        value.backward()
    return middle - start, time.perf_counter() - middle


def series(forward: Forward, embeddings: Tensor, repeats: int) -> list[tuple[float, float]]:
    """Run the step again and again; return the seconds of each."""
    steps: list[tuple[float, float]] = []
    start = time.perf_counter()
    while len(steps) < repeats and (not steps or time.perf_counter() - start < PATIENCE_SECONDS):
        steps.append(step(forward, embeddings))
    return steps


def times(forward: Forward, product: Forward, embeddings: Tensor, repeats: int, *, has_backward: bool = True) -> Times:
    """Time the bare product, the step, and the bare product once more."""
    before = series(product, embeddings, repeats)
    steps = series(forward, embeddings, repeats)
    after = series(product, embeddings, repeats)
    totals = [there + back for there, back in steps]
    return Times(
        forward=_median_ms(there for there, _ in steps),
        backward=_median_ms(back for _, back in steps) if has_backward else None,
        total=_median_ms(totals),
        product=_median_ms(there for there, _ in before + after),
        spread=(max(totals) - min(totals)) / statistics.median(totals),
        repeats=len(steps),
    )


def kept_bytes(forward: Forward, embeddings: Tensor) -> int | None:
    """Return the bytes that one forward pass keeps for backward beyond the embeddings; None without a backward."""
    values = []
    kept = sum(measure_saved_bytes(lambda: values.append(forward()), [embeddings]))
    return None if values == [None] else kept


def megabytes(count: int | None) -> float | str:
    """Return a number of bytes as a row shows it: in millions, or the word for None."""
    return "unknown" if count is None else count / 1e6


def _median_ms(seconds: Iterable[float]) -> float:
    return statistics.median(seconds) * 1e3
