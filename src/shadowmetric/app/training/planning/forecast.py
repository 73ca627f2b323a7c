"""The plan of a run, said before its first step: what is trained on what, in how much memory and time.

    time = reading + epochs x (batches x step + judging) + the test split

The steps were timed here and now (`costs.py`), so a machine that is busier later takes longer. A run that stops early,
since it does not improve any more, takes less: the epochs are the most. Memory is what `--memory-budget` would plan
with (`memory.py`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from shadowmetric.app.data.cache import ResizedImages, estimated_bytes
from shadowmetric.app.data.dataset import Split
from shadowmetric.app.data.feature_rows import FeatureRows
from shadowmetric.app.training.memory import Setting, expected_peak
from shadowmetric.app.training.planning.costs import Costs, measure_costs
from shadowmetric.app.training.runs.origin import cores
from shadowmetric.app.training.runs.settings import TrainSettings, images_of_batch
from shadowmetric.app.training.scoring import parts_to_score
from shadowmetric.app.training.setup import Training
from shadowmetric.app.training.show import duration
from shadowmetric.batches.budget import format_bytes

READERS = 4  # threads that read images once, see data/cache.py
LONG = 3600.0  # seconds, from which on a plan also says what would be minutes


@dataclass(frozen=True)
class Counts:
    """How much there is to do."""

    train: int  # images
    classes: int
    validation: int
    scored: int  # images that the scores of the test split take
    test: int
    batches: int  # of an epoch
    epochs: int
    unread: int  # images that must be read first, once


@dataclass(frozen=True)
class Forecast:
    """What a run will take."""

    settings: TrainSettings  # resolved
    counts: Counts
    costs: Costs
    weights: int  # that are learned
    source: str  # where they begin
    device: str
    memory: int | None  # bytes at the peak, where that is known
    cores: int
    features: float = 0.0  # seconds of computing a frozen backbone's rows of all images, once

    @property
    def reading(self) -> float:
        """Return the seconds of what is done once for each image: its reading, and a frozen backbone's row of it."""
        return self.features + self.counts.unread * self.costs.read / min(READERS, self.cores)

    def image(self, cost: float) -> float:
        """Return what an image costs, with its reading if it is not kept: beside a GPU that goes on meanwhile."""
        if not self.costs.lazy or self.counts.unread:
            return cost
        read = self.costs.read / self.cores
        return cost + read if self.device == "cpu" else max(cost, read)

    @property
    def epoch(self) -> float:
        """Return the seconds of an epoch and its judgment."""
        counts, batch = self.counts, images_of_batch(self.settings)
        start, rise = self.costs.epoch_scores
        judging = counts.validation * self.image(self.costs.embed) + start + rise * counts.validation**2
        steps = counts.batches * batch * self.image(self.costs.step / batch)
        return steps + (judging if counts.validation else 0.0)

    def seconds(self, epochs: int | None = None) -> float:
        """Return the time of so many epochs, by default all, and of the scores of the test split."""
        start, rise = self.costs.scores
        test = self.counts.scored * self.image(self.costs.embed) + start + rise * self.counts.test**2
        return self.reading + (self.counts.epochs if epochs is None else epochs) * self.epoch + test

    def sentences(self) -> tuple[str, ...]:
        """Say the plan, a line for each thing."""
        settings, counts = self.settings, self.counts
        judged = f"{counts.validation:,} judge an epoch" if counts.validation else "none judge an epoch"
        colors = "in gray" if settings.channels == 1 else "in color"
        stop = f", fewer after {settings.patience} without progress" if settings.patience else ""
        network = f"{settings.backbone}, {self.weights:,} weights to learn, {settings.dim} dimensions, {self.source}"
        memory = "not known here" if self.memory is None else f"{format_bytes(self.memory)} at the peak"
        micro = settings.micro_batch
        apart = f", embedded {micro} at a time" if micro and micro < images_of_batch(settings) else ""
        lines = {
            "data": f"{counts.train:,} images of {counts.classes:,} classes; {judged}; {counts.test:,} for the test",
            "network": network,
            "pixels": f"{settings.size} × {settings.size} {colors}; training changes them: {settings.augment}",
            "loss": f"{settings.loss}, {settings.optimizer} at {settings.learning_rate:g}",
            "batches": f"{counts.batches:,} of {settings.batch}{apart}, {counts.epochs} epochs{stop}",
            "memory": memory,
            "time": self.time_words(),
        }
        return tuple(f"  {name:<9}{text}" for name, text in lines.items())

    def time_words(self) -> str:
        """Say how long it takes, and how that is known."""
        batch = images_of_batch(self.settings)
        part = f"{self.costs.timed} of {batch} images timed" if self.costs.timed < batch else "timed"
        once = "read the images" + (" and compute their features, if none are kept" if self.features else "")
        reading = f", {duration(self.reading)} to {once}" if self.reading >= 1 else ""
        return (
            f"about {duration(self.seconds())} on {self.device}: {1000 * self.costs.step:,.0f} ms a batch ({part}), "
            f"{duration(self.epoch)} an epoch{reading}"
        )

    def plain(self, epochs: int | None = None) -> dict[str, Any]:
        """Return the figures as JSON has them, the time of so many epochs."""
        settings = self.settings
        names = ("backbone", "weights", "size", "channels", "augment", "loss", "batch", "dim")
        return {
            **{name: getattr(settings, name) for name in names},
            **vars(self.counts),
            "device": self.device,
            "learned_weights": self.weights,
            "expected_bytes": self.memory,
            "seconds_a_batch": self.costs.step,
            "seconds_an_epoch": self.epoch,
            "expected_seconds": self.seconds(epochs),
        }

    def outcome(self, measured: float, epochs: int, peak: int | None) -> str:
        """Say what was measured beside what was expected of so many epochs."""
        expected = self.seconds(epochs) - self.reading
        words = f"Planned {duration(expected)} for {epochs} epochs, took {duration(measured)}"
        words += f" ({100 * (measured - expected) / expected:+.0f} %)" if expected >= 1 else ""
        if self.memory is None or peak is None:
            return f"{words}."
        return f"{words}; planned {format_bytes(self.memory)}, took {format_bytes(peak)} at the peak."


def forecast(training: Training, features: float = 0.0) -> Forecast:
    """Return the plan of a run that is ready to go; it is changed in nothing. features: what computing them takes."""
    parts, settings, embedder = training.parts, training.settings, training.bare_embedder
    splits = parts_to_score(parts.dataset)
    unread, unread_bytes = unread_images(training)
    counts = Counts(
        train=len(parts.train),
        classes=parts.classes,
        validation=0 if parts.validation is None else len(parts.validation),
        scored=sum(len(split) for split in splits.values()),
        test=len(parts.dataset.test),
        batches=len(training.sampler),
        epochs=training.recipe.epochs,
        unread=unread,
    )
    learned = [*embedder.parameters(), *training.loss.parameters()]
    costs = measure_costs(training)
    setting = Setting(parts, training.recipe, embedder, training.loss, training.accelerator.device, 1)
    frozen = isinstance(parts.train.images, FeatureRows)  # then the peak is that of the backbone, which is done
    peak = None if frozen else expected_peak(setting) if training.plan is None else training.plan.predicted
    return Forecast(
        settings,
        counts,
        costs,
        sum(parameter.numel() for parameter in learned if parameter.requires_grad),
        begins_with(settings),
        training.accelerator.device.type,
        None if peak is None else peak + unread_bytes,
        min(cores(), torch.get_num_threads()),
        features,
    )


def unread_images(training: Training) -> tuple[int, int]:
    """Return how many images will be read once and kept, and are not yet; and their bytes."""
    limit = training.settings.cache_mb * 2**20
    splits = training.parts.dataset.parts().values()
    total = sum(len(split) for split in splits)
    images, size = 0, 0
    for split in splits:
        taken = estimated_bytes(split.images) if is_lazy(split) else 0.0
        if is_lazy(split) and taken <= limit * len(split) / total:
            images, size = images + len(split), size + round(taken)
    return images, size


def is_lazy(split: Split) -> bool:
    """Return whether its images are read whenever they are asked for."""
    return isinstance(split.images, ResizedImages)


def begins_with(settings: TrainSettings) -> str:
    """Say which weights training begins with."""
    if settings.weights in (None, "none"):
        return "from scratch"
    return (
        "pretrained weights" if settings.weights == "pretrained" else f"weights of {Path(str(settings.weights)).name}"
    )
