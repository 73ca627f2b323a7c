"""One job in this process; one JSON line on standard output. `python -m shadowmetric.bench.worker JOB_AS_JSON`

A process of its own per job is what makes peak memory mean something: no contender inherits memory that
another one has already touched. Whatever goes wrong in a contender becomes the line's `reason`.

Order: libraries, inputs, a tiny warm-up, the first full step (peak memory; it warms the clock up too),
kept bytes, times.
"""

import contextlib
import importlib.metadata
import json
import sys
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from shadowmetric.bench.contenders import CONTENDERS, PACKAGES
from shadowmetric.bench.measure import kept_bytes, peak_extra_bytes, step, times
from shadowmetric.bench.plan import Job

WARM_UP_ROWS = 32
FREE_DIRECTIONS = 8  # of the class centres with --clustered: trained embeddings use few of their dimensions
SPREAD = 0.5  # of a class around its centre

Figures = dict[str, float | int | str | None]


def inputs(job: Job) -> tuple[Tensor, Tensor]:
    """Return the embeddings, as a leaf that wants its gradient, and the labels."""
    generator = torch.Generator().manual_seed(job.seed)
    labels = torch.arange(job.batch) // job.per_class
    embeddings = torch.randn(job.batch, job.dim, generator=generator)
    if job.clustered:
        directions = torch.randn(FREE_DIRECTIONS, job.dim, generator=generator) / FREE_DIRECTIONS**0.5
        centres = torch.randn(int(labels[-1]) + 1, FREE_DIRECTIONS, generator=generator) @ directions
        embeddings = embeddings.mul_(SPREAD).add_(centres[labels])
    return embeddings.requires_grad_(), labels


def figures(job: Job) -> Figures:
    """Measure the job here and now."""
    prepare = CONTENDERS[job.contender]
    tiny, tiny_labels = inputs(replace(job, batch=WARM_UP_ROWS, clustered=False))
    embeddings, labels = inputs(job)
    step(prepare(tiny, tiny_labels), tiny)
    forward = prepare(embeddings, labels)
    peak = peak_extra_bytes(lambda: step(forward, embeddings))
    kept = kept_bytes(forward, embeddings)
    product = CONTENDERS["bare-product"](embeddings, labels)
    product()
    time = times(forward, product, embeddings, job.repeats, has_backward=kept is not None)
    return {
        "repeats": time.repeats,
        "forward_ms": time.forward,
        "backward_ms": time.backward,
        "total_ms": time.total,
        "spread": time.spread,
        "product_ms": time.product,
        "ratio_to_product": time.total / time.product,
        "peak_extra_mb": "unknown" if peak is None else peak / 1e6,
        "kept_bytes": kept,
        "version": importlib.metadata.version(PACKAGES.get(job.contender, "torch")),
    }


def record(job: Job) -> Figures:
    """Return the job's figures, or the reason why there are none."""
    try:
        return figures(job)
    except ImportError as missing:
        return {"reason": f"{PACKAGES.get(job.contender, job.contender)} cannot be imported: {_one_line(missing)}"}
    except Exception as failure:  # a contender is foreign code: whatever it raises is its row
        return {"reason": f"{type(failure).__name__}: {_one_line(failure)}"}


def _one_line(failure: Exception) -> str:
    return (str(failure).strip().splitlines() or ["no message"])[0]


def offer_this_process_first() -> None:
    """Ask the kernel to end this process before any other should memory run out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def main() -> None:
    """Measure the job of the command line."""
    offer_this_process_first()
    print(json.dumps(record(Job(**json.loads(sys.argv[1])))))


if __name__ == "__main__":
    main()
