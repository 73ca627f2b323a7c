"""What is lost and won by exporting: torch, the float file and the 8-bit file on the same test images of the run.

    Recall@1        each image searched among the others, or in the dataset's own gallery, as the run was scored
    cosine error    1 - cos between torch's row and the model's row of the same image: the largest, and the mean
    latency         of one image, from pixels to its row: the median after a warm-up, with one and with two threads
    images/s      in batches of 32, with two threads
    resident        memory of a process of its own that holds the model and has embedded one image; those of .onnx
                    files have the device room alone, without torch

Memory: the rows of each model, (images, dim) float32, and a batch of pixels.
"""

import hashlib
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shadowmetric.app.data.dataset import Split
from shadowmetric.app.serving.exporting.resident import resident_bytes
from shadowmetric.app.serving.exporting.squares import squares_of
from shadowmetric.app.serving.model import Model, RunModel
from shadowmetric.errors import Stopped
from shadowmetric.evaluation import evaluate
from shadowmetric.progress import Report
from shadowmetric.runtime.images import Shape
from shadowmetric.runtime.model import OnnxModel

TORCH, FLOAT, INT8 = "torch", "fp32", "int8"
BATCH = 32
THREADS = (1, 2)
WARM_UP, REPEATS, BATCH_REPEATS = 5, 50, 5


@dataclass(frozen=True)
class Measured:
    """One model on the test images."""

    model: str
    recall_at_1: float
    change: float  # against torch
    largest_cosine_error: float
    mean_cosine_error: float
    bytes: int  # of the file
    sha256: str
    milliseconds: dict[str, float]  # for one image, by the number of threads
    images_per_second: float
    resident_bytes: int

    def plain(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)


def measure_parity(
    run: Path,
    weights: Path,
    files: Mapping[str, Path],
    split: Split,
    gallery: Split | None = None,
    *,
    skip_broken: bool,
    tell: Report,
) -> tuple[list[Measured], int]:
    """Return what is measured of torch and of each exported file, and on how many images; weights: the run's file."""
    models: dict[str, Model] = {TORCH: RunModel(run), **{name: OnnxModel(file) for name, file in files.items()}}
    rows, labels, sample = rows_of(models, split, skip_broken, tell)
    searched = None if gallery is None else rows_of(models, gallery, skip_broken, tell)
    recall = {}
    for name, embeddings in rows.items():
        gallery_rows, gallery_labels = (None, None) if searched is None else (searched[0][name], searched[1])
        scores = evaluate(
            embeddings,
            labels,
            gallery=gallery_rows,
            gallery_labels=gallery_labels,
            measures=("recall_at",),
            recall_at=(1,),
            progress=False,
        )
        recall[name] = float(scores.recall_at[1])
    measured = []
    for done, name in enumerate(models):
        tell("measuring speed and memory", done / len(models))
        error = cosine_errors(rows[TORCH], rows[name])
        file = files.get(name, weights)
        measured.append(
            Measured(
                name,
                recall[name],
                recall[name] - recall[TORCH],
                float(error.max()),
                float(error.mean()),
                file.stat().st_size,
                sha256_of(file),
                *speed(run, files.get(name), sample),
                resident_bytes(run if name == TORCH else file, name == TORCH),
            )
        )
    return measured, len(labels)


def rows_of(
    models: Mapping[str, Model], split: Split, skip_broken: bool, tell: Report
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Return the rows of each model, the labels, and a batch of squares; each image is read once."""
    shape: Shape = next(iter(models.values())).about.shape
    chunks: dict[str, list[np.ndarray]] = {name: [] for name in models}
    numbers: list[int] = []
    sample = np.empty(0, np.uint8)
    for some, squares in squares_of(split.images, shape, BATCH, skip_broken=skip_broken):
        for name, model in models.items():
            chunks[name].append(model.embed(squares))
        sample = sample if numbers else squares
        numbers += some
        tell("comparing models", len(numbers) / len(split))
    if not numbers:
        raise Stopped("none of the test images can be read, so nothing can be compared; bring back the dataset.")
    return {name: np.concatenate(parts) for name, parts in chunks.items()}, split.labels[numbers], sample


def cosine_errors(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return 1 - cos between rows of the same number, in float64; 0 at least."""
    left, right = (part.astype(np.float64) for part in (rows, others))
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return (1 - (left * right).sum(1) / np.maximum(lengths, 1e-12)).clip(0)


def speed(run: Path, file: Path | None, squares: np.ndarray) -> tuple[dict[str, float], float]:
    """Return milliseconds for one image by the number of threads, and images a second in batches."""
    milliseconds, model = {}, None
    for threads in THREADS:
        with torch_threads(threads):
            model = RunModel(run) if file is None else OnnxModel(file, threads)
            milliseconds[str(threads)] = 1000 * median_seconds(model, squares[:1], REPEATS)
    assert model is not None
    batch = np.resize(squares, (BATCH, *squares.shape[1:]))
    with torch_threads(THREADS[-1]):
        return milliseconds, BATCH / median_seconds(model, batch, BATCH_REPEATS)


def median_seconds(model: Model, squares: np.ndarray, repeats: int) -> float:
    """Return the median time to embed."""
    seconds = []
    for repeat in range(-min(WARM_UP, repeats), repeats):
        start = time.perf_counter()
        model.embed(squares)
        if repeat >= 0:
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch compute with so many threads for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def sha256_of(file: Path) -> str:
    """Return the digest of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
