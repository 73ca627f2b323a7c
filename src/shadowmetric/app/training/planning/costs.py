"""What the pieces of a run cost here, by doing a few of them: nothing that the run will use is changed.

    read     to read an image, where images are not in memory
    step     a batch, as training has it: random changes, embedding, mining and loss, backward, optimizer
    embed    an image, as scoring has it
    scores   evaluate(n) = a + b n², of rows drawn at random, at two sizes

A step is tried on a few images first. Where the whole batch would take long, a part of it is timed, and its time taken
for that of the whole in proportion. The first step of each is not counted: libraries make their workspaces in it. Of
several, the middle one counts. The optimizer is timed apart, on weights of its own.

Buffers, the state of the loss, gradients and the states of all generators are put back: a run that was planned is the
same run, bit for bit.

Cost: a second or two of small networks, some ten seconds of large ones. Memory: a step's.
"""

import contextlib
import copy
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shadowmetric.app.data.augmentation import NONE, Augmentation
from shadowmetric.app.data.cache import ResizedImages
from shadowmetric.app.data.dataset import Split
from shadowmetric.app.data.feature_rows import FeatureRows
from shadowmetric.app.data.images import ArrayImages
from shadowmetric.app.data.loading import Batch, Draw, Draws, Images
from shadowmetric.app.training.scoring import EPOCH_MEASURES
from shadowmetric.app.training.setup import Training
from shadowmetric.app.training.steps.optimizer import OPTIMIZERS
from shadowmetric.app.training.steps.step import backward
from shadowmetric.evaluation import evaluate

STEPS = 5  # of which the middle one counts
SECONDS = 3.0  # that a timed step takes at most, and after which no more are timed
FIRST = 8  # images of the step that is tried first
READ = 24  # images
SCORED = (1024, 2048)  # rows
WEIGHTS = 2**20  # on which an optimizer is timed, at most


@dataclass(frozen=True)
class Costs:
    """Seconds."""

    read: float  # an image
    step: float  # a batch
    timed: int  # images of the batch that were timed
    embed: float  # an image
    epoch_scores: tuple[float, float]  # a and b
    scores: tuple[float, float]

    @property
    def lazy(self) -> bool:
        """Return whether images are read whenever they are asked for."""
        return self.read > 0


def measure_costs(training: Training) -> Costs:
    """Return what the pieces of a run cost, before its first step."""
    with undisturbed(training):
        draw = next(iter(Draws(fresh(training.sampler))))
        numbers = draw.numbers[draw.share.start : draw.share.stop]
        read = seconds_of_reading(training.parts.train, numbers[:READ])
        step, timed = seconds_of_step(training, in_memory(training.parts.train, numbers), draw.seed)
        embed = seconds_of_embedding(training, training.parts.train.take(np.array(numbers)))
        dim, most = training.settings.dim, len(training.parts.dataset.test)
        scores = [seconds_of_scores(dim, most, measures) for measures in (EPOCH_MEASURES, None)]
    return Costs(read, step, timed, embed, scores[0], scores[1])


@contextlib.contextmanager
def undisturbed(training: Training) -> Iterator[None]:
    """Put back whatever a step changes."""
    embedder, loss = training.bare_embedder, training.loss
    states = random.getstate(), np.random.get_state()
    buffers = [(buffer, buffer.clone()) for buffer in embedder.buffers()]
    state, was_training = copy.deepcopy(loss.state_dict()), embedder.training
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        for buffer, before in buffers:
            buffer.data.copy_(before)
        loss.load_state_dict(state)
        training.embedder.train(was_training)
        for parameter in (*embedder.parameters(), *loss.parameters()):
            parameter.grad = None


def fresh(sampler: Any) -> Any:
    """Return the sampler at the start of its first epoch; the run's own stays where it is."""
    another = copy.copy(sampler)
    another.set_epoch(0)
    return another


def seconds_of_reading(split: Split, numbers: Sequence[int]) -> float:
    """Return the time of reading an image; 0 if they are in memory."""
    if not isinstance(split.images, ResizedImages):
        return 0.0
    return statistics.median(seconds(lambda number=number: split.images.read(number)) for number in numbers)


def in_memory(split: Split, numbers: Sequence[int]) -> Split:
    """Return a split of these images that has them in memory."""
    images, labels = split.images, split.labels[list(numbers)]
    if isinstance(images, ArrayImages | FeatureRows):
        return Split(images.take(np.array(numbers)), labels)
    return Split(Kept([images.read(number) for number in numbers]), labels)


@dataclass(frozen=True, eq=False)
class Kept:
    """Images in memory."""

    images: list[Tensor]

    def __len__(self) -> int:
        return len(self.images)

    def read(self, number: int) -> Tensor:
        """Return an image, (channels, height, width) uint8."""
        return self.images[number]

    def name(self, number: int) -> str:
        """Return its number."""
        return str(number)

    def take(self, numbers: np.ndarray) -> "Kept":
        """Return some of them."""
        return Kept([self.images[int(number)] for number in numbers])


def seconds_of_step(training: Training, split: Split, seed: int) -> tuple[float, int]:
    """Return the time of a batch, and how many of its images were timed."""
    whole, least = len(split), 2 * training.recipe.per_class
    source = Images(split, training.parts.shape, augmentation_of(training))
    training.embedder.train()

    def step(images: int) -> None:
        drawn = list(range(images))
        batch = source.__getitems__(Draw(drawn, seed, range(images)))
        backward(training, Batch(batch.images, batch.labels, drawn, drawn), batch.labels.to(device))
        synchronize(device)

    device = training.accelerator.device
    first = min(whole, max(FIRST, least))
    tried = seconds(lambda: step(first))
    timed = max(first, min(whole, int(first * SECONDS / max(tried, 1e-6))))
    step(timed) if timed > first else None
    times, until = [], time.monotonic() + SECONDS
    while len(times) < STEPS and (not times or time.monotonic() < until):
        times.append(seconds(lambda: step(timed)))
    return statistics.median(times) * whole / timed + seconds_of_optimizer(training), timed


def augmentation_of(training: Training) -> Augmentation:
    """Return what training changes in images."""
    return Augmentation(training.recipe.augment, training.parts.dataset.mirrors)


def seconds_of_optimizer(training: Training) -> float:
    """Return the time of a step of such an optimizer over so many weights."""
    learned = [*training.bare_embedder.parameters(), *training.loss.parameters()]
    shapes, count = [], 0
    for parameter in learned:
        if parameter.requires_grad and (not shapes or count + parameter.numel() <= WEIGHTS):
            shapes.append(parameter.shape)
            count += parameter.numel()
    total = sum(parameter.numel() for parameter in learned if parameter.requires_grad)
    device = training.accelerator.device
    own = [nn.Parameter(torch.zeros(shape, device=device)) for shape in shapes]
    for parameter in own:
        parameter.grad = torch.zeros_like(parameter)
    optimizer = OPTIMIZERS[training.recipe.optimizer]([{"params": own, "lr": 1e-3}], weight_decay=0.0)

    def step() -> None:
        optimizer.step()
        synchronize(device)

    step()
    return min(seconds(step) for _ in range(3)) * total / max(count, 1)


@torch.no_grad()
def seconds_of_embedding(training: Training, split: Split) -> float:
    """Return the time of embedding an image for its scores."""
    embedder, device = training.bare_embedder, training.accelerator.device
    embedder.eval()
    some = range(min(len(split), READ))
    images = Images(split, training.parts.shape, NONE).__getitems__(Draw([*some], 0, some)).images.to(device)

    def embed() -> None:
        embedder(images)
        synchronize(device)

    embed()
    return min(seconds(embed) for _ in range(2)) / len(images)


def seconds_of_scores(dim: int, most: int, measures: tuple[str, ...] | None) -> tuple[float, float]:
    """Return a and b of evaluate(n) = a + b n²."""
    sizes = [min(size, max(most, 8)) for size in SCORED]
    chosen: dict[str, Any] = {} if measures is None else {"measures": measures, "recall_at": (1,)}
    times = []
    for size in sizes:
        random_rows = torch.randn(size, dim, generator=torch.Generator().manual_seed(0))
        labels = torch.arange(size) // 4
        times.append(
            min(seconds(lambda: evaluate(random_rows, labels, progress=False, **chosen)) for _ in range(2))  # noqa: B023
        )
    if sizes[0] == sizes[1]:
        return min(times), 0.0
    rise = max(times[1] - times[0], 0.0) / (sizes[1] ** 2 - sizes[0] ** 2)
    return max(times[0] - rise * sizes[0] ** 2, 0.0), rise


def seconds(action: Callable[[], object]) -> float:
    """Return how long something takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def synchronize(device: torch.device) -> None:
    """Wait for a device that works on its own."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
