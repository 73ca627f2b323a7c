"""One job of the losses in this process. `python -m benchmarks.losses.worker JOB_AS_JSON`

Order: libraries, inputs, a tiny warm-up, the first full step (peak memory; it warms the clock up too),
kept bytes, times.
"""

import importlib.metadata
from dataclasses import replace

import torch
from torch import Tensor

from benchmarks.answer import answer
from benchmarks.inputs import scatter_around_centers
from benchmarks.losses.contenders import CONTENDERS, contender_of, package_of
from benchmarks.losses.plan import Job
from benchmarks.measure import kept_bytes, megabytes, step, times
from shadowmetric.app.doctor.devices.figures import Figures, figures_or_reason
from shadowmetric.batches.meter import peak_extra_bytes

WARM_UP_ROWS = 32


def inputs(job: Job) -> tuple[Tensor, Tensor]:
    """Return the embeddings, as a leaf that wants its gradient, and the labels."""
    generator = torch.Generator().manual_seed(job.seed)
    labels = torch.arange(job.batch) // job.per_class
    embeddings = torch.randn(job.batch, job.dim, generator=generator)
    if job.clustered:
        embeddings = scatter_around_centers(embeddings, labels, generator)
    return embeddings.requires_grad_(), labels


def figures(job: Job) -> Figures:
    """Measure the job here and now."""
    prepare = contender_of(job.contender)
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
        "peak_extra_mb": megabytes(peak),
        "kept_bytes": kept,
        "version": importlib.metadata.version(package_of(job.contender)),
    }


def record(job: Job) -> Figures:
    """Return the job's figures, or the reason why there are none."""
    return figures_or_reason(lambda: figures(job), package_of(job.contender))


if __name__ == "__main__":
    answer(Job, record)
