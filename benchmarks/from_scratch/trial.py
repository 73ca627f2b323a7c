"""One cell: a contender trained on a bed for so many seconds of one thread, and judged.

The rate follows the processor's time as it follows the steps in `train`, so that every contender ends its schedule
when its time is over. What the time buys, steps, is the contender's own affair: network, augmentation, loss and all.

    ours            what `train` does from scratch if nobody says otherwise, but for one setting in a sweep
    cross_entropy   the plain script
    triplet         the plain script with its other loss
    raw_pixels      the images themselves, not trained
    untrained       our network before the first step
"""

import time
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from benchmarks.from_scratch import plain_script
from benchmarks.from_scratch.beds import Ground
from benchmarks.from_scratch.networks import NETWORKS
from shadowmetric.app.data.augmentation import AUTO, Augmentation
from shadowmetric.app.data.image_kind import look_at
from shadowmetric.app.data.loading import training_batches
from shadowmetric.app.models.embedder import Embedder
from shadowmetric.app.training.optimizer import build_optimizer, set_rates, share_of_peak
from shadowmetric.app.training.runs.recipes import FROM_SCRATCH
from shadowmetric.batches.sampler import PKSampler
from shadowmetric.evaluation import evaluate
from shadowmetric.losses.catalogue import build_loss

Contender = Literal["ours", "cross_entropy", "triplet", "raw_pixels", "untrained"]
TICKS = 10**6  # of a schedule
DIM = 64


@dataclass(frozen=True)
class Setting:
    """What is tried; as it is, the default from scratch."""

    network: str = "small_cnn"
    loss: str = FROM_SCRATCH.loss
    augment: str = FROM_SCRATCH.augment
    rate: float = FROM_SCRATCH.rate
    batch: int = FROM_SCRATCH.batch
    per_class: int = FROM_SCRATCH.per_class
    weight_decay: float = FROM_SCRATCH.weight_decay


def train(contender: Contender, ground: Ground, setting: Setting, seconds: float, seed: int) -> tuple[nn.Module, int]:
    """Return what a contender made of its seconds, and its steps."""
    if contender == "ours":
        return train_ours(ground, setting, seconds, seed)
    mirrors, (images, labels) = ground.parts.dataset.mirrors, ground.train
    return plain_script.train(images, labels, loss=contender, mirrors=mirrors, seconds=seconds, seed=seed)


def train_ours(ground: Ground, setting: Setting, seconds: float, seed: int) -> tuple[nn.Module, int]:
    """Return an embedder after so many seconds of the processor, and its steps."""
    embedder = new_embedder(ground, setting, seed)
    classes = int(ground.train.labels.max()) + 1
    loss = build_loss(setting.loss, margin=0.2, miner="semi_hard", classes=classes, dim=DIM)
    chosen = {name: value for name, value in asdict(setting).items() if name not in ("network", "loss", "augment")}
    recipe = replace(FROM_SCRATCH, **chosen, head_rate=setting.rate)
    optimizer = build_optimizer(embedder, loss, recipe)
    sampler = PKSampler(ground.train.labels, setting.batch, setting.per_class, seed=seed)
    kind = look_at(ground.parts.train.images).kind if setting.augment == AUTO else setting.augment
    augmentation = Augmentation(kind, ground.parts.dataset.mirrors)
    steps, began, share = 0, time.process_time(), 0.0
    while share < 1:
        sampler.load_state_dict({"epoch": steps // len(sampler), "position": 0})
        for batch in training_batches(ground.parts.train, ground.parts.shape, augmentation, sampler):
            set_rates(optimizer, share_of_peak(round(TICKS * share), TICKS, recipe.warmup))
            loss(embedder(batch.images), batch.labels).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            steps += 1
            share = (time.process_time() - began) / seconds
            if share >= 1:
                break
    return embedder.eval(), steps


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
