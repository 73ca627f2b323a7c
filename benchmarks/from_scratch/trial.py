"""One cell: a contender trained on a bed for so many seconds of one thread, and judged.

Contenders are first timed, in turns, by the least time of a step, and then do as many steps as go into the seconds,
each with its whole schedule. So the time is that of a quiet processor, however busy it is: what else runs makes a step
longer, never shorter. A step has all in it: augmentation, network, loss, optimizer.

    ours            what `train` does from scratch if nobody says otherwise, but for one setting in a sweep
    cross_entropy   the plain script
    triplet         the plain script with its other loss
    raw_pixels      the images themselves, not trained
    untrained       our network before the first step
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count, pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn

from benchmarks.from_scratch import plain_script
from benchmarks.from_scratch.beds import Ground
from benchmarks.from_scratch.networks import NETWORKS
from shadowmetric.app.data.augmentation import AUTO, Augmentation
from shadowmetric.app.data.image_kind import look_at
from shadowmetric.app.data.loading import Batch, training_batches
from shadowmetric.app.models.embedder import Embedder
from shadowmetric.app.training.runs.recipes import FROM_SCRATCH
from shadowmetric.app.training.steps.optimizer import build_optimizer, set_rates, share_of_peak
from shadowmetric.batches.sampler import PKSampler, ShuffledSampler
from shadowmetric.evaluation import evaluate
from shadowmetric.losses.catalogue import build_loss

Contender = Literal["ours", "cross_entropy", "triplet", "raw_pixels", "untrained"]
ROUNDS, STEPS = 6, 8  # in which contenders are timed
DIM = 64


@dataclass(frozen=True)
class Setting:
    """What is tried; as it is, the default from scratch."""

    network: str = "small_cnn"
    loss: str = FROM_SCRATCH.loss
    augment: str = FROM_SCRATCH.augment
    learning_rate: float = FROM_SCRATCH.learning_rate
    batch: int = FROM_SCRATCH.batch
    per_class: int = FROM_SCRATCH.per_class
    weight_decay: float = FROM_SCRATCH.weight_decay


def seconds_of_step(contenders: Sequence[tuple[Contender, Setting]], ground: Ground) -> list[float]:
    """Return the least time of a step of each contender; they take turns, so that a busy hour hits them all alike."""
    least = [math.inf] * len(contenders)
    for _ in range(ROUNDS):
        for number, (contender, setting) in enumerate(contenders):
            times: list[float] = []
            train(contender, ground, setting, STEPS + 1, 0, lambda times=times: times.append(time.process_time()))
            least[number] = min(least[number], *(later - earlier for earlier, later in pairwise(times)))
    return least


def train(
    contender: Contender, ground: Ground, setting: Setting, steps: int, seed: int, done: Callable[[], object]
) -> nn.Module:
    """Return what a contender made of its steps; done: called after each."""
    if contender == "ours":
        return train_ours(ground, setting, steps, seed, done)
    mirrors, (images, labels) = ground.parts.dataset.mirrors, ground.train
    return plain_script.train(images, labels, loss=contender, mirrors=mirrors, steps=steps, seed=seed, done=done)


def train_ours(ground: Ground, setting: Setting, steps: int, seed: int, done: Callable[[], object]) -> nn.Module:
    """Return an embedder after so many steps."""
    embedder = new_embedder(ground, setting, seed)
    classes = int(ground.train.labels.max()) + 1
    loss = build_loss(setting.loss, margin=0.2, miner="semi_hard", classes=classes, dim=DIM)
    chosen = {name: value for name, value in asdict(setting).items() if name not in ("network", "loss", "augment")}
    recipe = replace(FROM_SCRATCH, **chosen, head_learning_rate=setting.learning_rate)
    optimizer = build_optimizer(embedder, loss, recipe)
    for step, batch in zip(range(steps), our_batches(ground, setting, seed), strict=False):
        set_rates(optimizer, share_of_peak(step, steps, recipe.warmup))
        loss(embedder(batch.images), batch.labels).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        done()
    return embedder.eval()


def our_batches(ground: Ground, setting: Setting, seed: int) -> Iterator[Batch]:
    """Yield batches, epoch after epoch."""
    labels = ground.train.labels
    if setting.per_class == 1:
        sampler = ShuffledSampler(len(labels), setting.batch, seed=seed)
    else:
        sampler = PKSampler(labels, setting.batch, setting.per_class, seed=seed)
    kind = look_at(ground.parts.train.images).kind if setting.augment == AUTO else setting.augment
    augmentation = Augmentation(kind, ground.parts.dataset.mirrors)
    for epoch in count():
        sampler.load_state_dict({"epoch": epoch, "position": 0})
        yield from training_batches(ground.parts.train, ground.parts.shape, augmentation, sampler)


def new_embedder(ground: Ground, setting: Setting, seed: int) -> Embedder:
    """Return our embedder before the first step, in training mode."""
    torch.manual_seed(seed)
    channels, size = ground.train.pixels.shape[1:3]
    network, features = NETWORKS[setting.network](channels, size)
    half = (0.5,) * channels
    embedder = Embedder(network, features, DIM, mean=half, std=half)
    return embedder.to(memory_format=torch.channels_last).train()  # pyright: ignore[reportCallIssue]


@torch.no_grad()
def embed(network: nn.Module, pixels: Tensor) -> Tensor:
    """Return rows of length 1."""
    rows = torch.cat([network(some) for some in pixels.split(256)])
    return nn.functional.normalize(rows)


def judge(network: nn.Module, ground: Ground) -> dict[str, Any]:
    """Return Recall@1 and MAP@R leave-one-out, and where classes are known the share with a right nearest image."""
    train, judged = (embed(network, part.pixels) for part in (ground.train, ground.judged))
    return judge_rows(train, judged, ground)


def judge_floor(contender: Contender, ground: Ground, setting: Setting, seed: int) -> dict[str, Any]:
    """Return the figures of what is not trained."""
    if contender == "untrained":
        return judge(new_embedder(ground, setting, seed).eval(), ground)
    train, judged = (part.pixels.flatten(1).float() for part in (ground.train, ground.judged))
    return judge_rows(train, judged, ground)


def judge_rows(train: Tensor, judged: Tensor, ground: Ground) -> dict[str, Any]:
    """Return the figures of rows."""
    labels = ground.judged.labels
    alone = evaluate(judged, labels, measures=("recall_at", "map_at_r"), recall_at=(1,), progress=False)
    figures = {"recall_at_1": alone.recall_at[1], "map_at_r": alone.map_at_r, "nearest": None}
    if ground.known:
        found = evaluate(
            judged,
            labels,
            gallery=train,
            gallery_labels=ground.train.labels,
            measures=("recall_at",),
            recall_at=(1,),
            progress=False,
        )
        figures["nearest"] = found.recall_at[1]
    return figures
