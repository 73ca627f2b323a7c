"""Images per second of `train` beside a bare torch loop with the same model, loss, optimizer and batch.

The bare loop is what one writes in ten lines: images in memory, index, embed, loss, backward, step. Ours adds the
sampler, random shifts and mirrors, watch, tally, progress and checkpoints. Both use one embedder in turn, a few
batches each, several rounds, after one that is not counted; medians. Evaluation is not part of either.
"""

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from shadowmetric.app.data.images import ArrayImages
from shadowmetric.app.training.interrupt import Stop
from shadowmetric.app.training.loop import train_epoch
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.app.training.setup import Training, set_up
from shadowmetric.app.training.show import Moment, Screen, Show
from shadowmetric.errors import Interrupted

CLASSES, PER_CLASS_IMAGES = 20, 64


@dataclass(frozen=True)
class Workload:
    """A backbone at a size."""

    backbone: str
    size: int
    channels: int
    batches: int  # a round


WORKLOADS = (Workload("small_cnn", 28, 1, 40), Workload("resnet18", 64, 3, 4))


@dataclass(frozen=True)
class Speed:
    """Images per second, medians over rounds."""

    workload: Workload
    batch: int
    bare: float
    ours: float
    ratio: float  # median of the rounds' ratios


class Measuring(Screen):
    """Shows on standard error, if that is a terminal, what is measured: a line that moves as often as `train`'s."""

    def __init__(self):
        super().__init__()
        self.what = ""

    def notes(self, sentences: tuple[str, ...]) -> None:
        """Say nothing: the images are random."""

    def begin(self, what: str) -> None:
        """Say what is measured from now on."""
        self.what = what
        self._move(what)

    def moment(self, moment: Moment) -> None:
        """Say how far it is."""
        self._move(f"{self.what}, batch {moment.batch} of {moment.batches}")


def training_speed(workload: Workload, *, batch: int = 32, per_class: int = 4, rounds: int = 7) -> Speed:
    """Return both speeds, measured in turn; meanwhile standard error says where that is."""
    show, pairs = Measuring(), []
    name = f"{workload.backbone}, {workload.size} pixels"
    try:
        with tempfile.TemporaryDirectory() as folder:
            show.begin(f"{name}: preparing")
            training = make_training(workload, Path(folder), batch, per_class, show)
            for number in range(rounds + 1):
                turn = f"round {number} of {rounds}" if number else "warming up"
                show.begin(f"{name}: {turn}, bare loop")
                bare = bare_round(training, workload.batches)
                show.begin(f"{name}: {turn}, train")
                pairs.append((bare, our_round(training)))
    finally:
        show.close()
    bare, ours = (statistics.median(side) for side in zip(*pairs[1:], strict=True))
    return Speed(workload, batch, bare, ours, statistics.median(our / own for own, our in pairs[1:]))


def make_training(workload: Workload, folder: Path, batch: int, per_class: int, show: Show) -> Training:
    """Return a training on random images."""
    random = np.random.default_rng(0)
    shape = (CLASSES * PER_CLASS_IMAGES, workload.size, workload.size, workload.channels)
    images = random.integers(0, 256, shape, dtype=np.uint8)
    np.savez(folder / "data.npz", images=images, labels=np.repeat(np.arange(CLASSES), PER_CLASS_IMAGES))
    settings = TrainSettings(
        data=f"npz:{folder / 'data.npz'}",
        backbone=workload.backbone,
        batch=batch,
        per_class=per_class,
        batches=workload.batches,
        epochs=1000,
        patience=0,
        augment="none",  # as the bare loop
    )
    return set_up(settings, Run(folder / "run"), show, resume=False)


def bare_round(training: Training, batches: int) -> float:
    """Return the images per second of a bare loop."""
    images = training.parts.train.images
    assert isinstance(images, ArrayImages)
    labels = torch.from_numpy(training.parts.train.labels)
    numbers = [next(iter(training.sampler)) for _ in range(batches)]
    device = training.accelerator.device
    embedder, optimizer = training.bare_embedder.train(), training.optimizer.optimizer
    began, seen = time.perf_counter(), 0
    for some in numbers:
        indices = torch.tensor(some)
        loss = training.loss(embedder(images.pixels[indices].to(device)), labels[indices].to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen += len(some)
    return seen / (time.perf_counter() - began)


def our_round(training: Training) -> float:
    """Return the images per second of an epoch of `train`."""
    state = training.state
    state.position, state.sums, state.in_a_row = 0, {}, {}
    began = time.perf_counter()
    try:
        with Stop() as stop:
            train_epoch(training, stop)
    except Interrupted:
        raise KeyboardInterrupt from None  # a bench has nothing to go on with
    return state.sums["images"] / (time.perf_counter() - began)
