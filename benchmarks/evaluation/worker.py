"""One job of the evaluation in this process. `python -m benchmarks.evaluation.worker JOB_AS_JSON`

Order: a tiny warm-up, which loads the libraries and starts their threads; inputs; the evaluation, once, with time
and peak memory of the same run (the kernel keeps the mark of the memory whether anybody looks or not).
"""

import importlib.metadata
import time
from dataclasses import replace

import torch
from torch import Tensor

from benchmarks.answer import answer
from benchmarks.evaluation.contenders import CONTENDERS, PACKAGES
from benchmarks.evaluation.plan import EvaluationJob
from benchmarks.inputs import scatter_around_centers
from benchmarks.measure import megabytes
from shadowmetric.app.doctor.devices.figures import Figures, figures_or_reason
from shadowmetric.batches.meter import peak_extra_bytes

WARM_UP_ROWS = 256
WARM_UP_CLASSES = 8


class Stopwatch:
    """Notes when each stage begins. A stage lasts until the next one; the first begins with the watch."""

    def __init__(self):
        self.start = time.perf_counter()
        self.begun: dict[str, float] = {}

    def note(self, stage: str, share: float = 0.0) -> None:
        """Begin a stage, unless it has begun."""
        if stage not in self.begun:
            self.begun[stage] = time.perf_counter() if self.begun else self.start

    def stop(self) -> dict[str, float]:
        """Return the seconds of each stage."""
        ends = [*list(self.begun.values())[1:], time.perf_counter()]
        return {stage: end - begin for (stage, begin), end in zip(self.begun.items(), ends, strict=True)}


def inputs(job: EvaluationJob) -> tuple[Tensor, Tensor]:
    """Return the embeddings and their shuffled labels."""
    generator = torch.Generator().manual_seed(job.seed)
    labels = (torch.arange(job.rows) % job.classes)[torch.randperm(job.rows, generator=generator)]
    return scatter_around_centers(torch.randn(job.rows, job.dim, generator=generator), labels, generator), labels


def evaluate_contender(
    job: EvaluationJob, embeddings: Tensor, labels: Tensor
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the figures, and the seconds of each stage, scaled up where the peers searched a part."""
    watch = Stopwatch()
    scores = CONTENDERS[job.contender](job, embeddings, labels, watch.note)
    seconds = watch.stop()
    if job.extrapolated:
        seconds["retrieval"] *= job.rows / job.searched
    return scores, seconds


def figures(job: EvaluationJob) -> Figures:
    """Measure the job here and now."""
    tiny = replace(job, rows=WARM_UP_ROWS, classes=WARM_UP_CLASSES, queries=None)
    evaluate_contender(tiny, *inputs(tiny))
    embeddings, labels = inputs(job)
    outcome = []
    peak = peak_extra_bytes(lambda: outcome.append(evaluate_contender(job, embeddings, labels)))
    ((scores, seconds),) = outcome
    return {
        **{f"{stage}_s": length for stage, length in seconds.items()},
        "total_s": sum(seconds.values()),
        "extrapolated": job.extrapolated,
        "peak_extra_mb": megabytes(peak),
        **scores,
        "version": ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages(job)),
    }


def packages(job: EvaluationJob) -> list[str]:
    """Return the names of what the contender uses."""
    return list(dict.fromkeys(PACKAGES[job.contender][stage] for stage in job.stages))


def record(job: EvaluationJob) -> Figures:
    """Return the job's figures, or the reason why there are none."""
    return figures_or_reason(lambda: figures(job), " or ".join(packages(job)))


if __name__ == "__main__":
    answer(EvaluationJob, record)
