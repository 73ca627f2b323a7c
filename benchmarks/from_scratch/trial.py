"""One cell: a contender trained on a bed for so many seconds of one thread, and judged.

The rate follows the processor's time as it follows the steps in `train`, so that every contender ends its schedule
when its time is over. What the time buys, steps, is the contender's own affair: network, augmentation, loss and all.
"""

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.from_scratch.beds import Ground
from benchmarks.from_scratch.networks import NETWORKS
from shadowmetric.app.data.augmentation import Augmentation
from shadowmetric.app.data.loading import training_batches
from shadowmetric.app.models.embedder import Embedder
from shadowmetric.app.training.optimizer import build_optimizer, set_rates, share_of_peak
from shadowmetric.app.training.runs.recipes import FROM_SCRATCH
from shadowmetric.batches.sampler import PKSampler
from shadowmetric.evaluation import evaluate
from shadowmetric.losses import ArcFaceLoss, MultiSimilarityLoss, SoftTripleLoss
from shadowmetric.losses.catalogue import build_loss
from dataclasses import replace

TICKS = 10**6  # of a schedule
DIM = 64


@dataclass(frozen=True)
class Setting:
    """What is tried."""

    network: str = "24-48-96-192"
    loss: str = "soft_triple"
    augment: str = "shift"
    rate: float = 2e-3
    batch: int = 64
    per_class: int = 4
    weight_decay: float = 1e-4
    optimizer: str = "adamw"
    warmup: float = 0.05


def make_loss(name: str, classes: int) -> nn.Module:
    """Return a loss by its name; a few with other settings than their default's."""
    if name == "normalized_softmax":
        return SoftTripleLoss(classes, DIM, centers_per_class=1, scale=16.0, tau=0.0, margin=0.0)
    if name == "soft_triple_3":
        return SoftTripleLoss(classes, DIM, centers_per_class=3)
    if name == "arc_face_16":
        return ArcFaceLoss(classes, DIM, scale=16.0, margin=0.2)
    return build_loss(name, margin=0.2, miner="semi_hard", classes=classes, dim=DIM)


def train_ours(ground: Ground, setting: Setting, seconds: float, seed: int) -> tuple[nn.Module, int]:
    """Return an embedder after so many seconds of the processor, and its steps."""
    torch.manual_seed(seed)
    channels, size = ground.train.pixels.shape[1:3]
    network = NETWORKS[setting.network](channels, size)
    half = (0.5,) * channels
    embedder = Embedder(network, int(network.features), DIM, mean=half, std=half)  # pyright: ignore
    embedder.to(memory_format=torch.channels_last)  # pyright: ignore
    loss = make_loss(setting.loss, int(ground.train.labels.max()) + 1)
    recipe = replace(
        FROM_SCRATCH,
        rate=setting.rate,
        head_rate=setting.rate,
        weight_decay=setting.weight_decay,
        optimizer=setting.optimizer,
    )
    optimizer = build_optimizer(embedder, loss, recipe)
    sampler = PKSampler(ground.train.labels, setting.batch, setting.per_class, seed=seed)
    augmentation = Augmentation(setting.augment, ground.parts.dataset.mirrors)
    embedder.train()
    steps, began, share = 0, time.process_time(), 0.0
    while share < 1:
        sampler.load_state_dict({"epoch": steps // len(sampler), "position": 0})
        for batch in training_batches(ground.parts.train, ground.parts.shape, augmentation, sampler):
            set_rates(optimizer, share_of_peak(round(TICKS * share), TICKS, setting.warmup))
            loss(embedder(batch.images), batch.labels).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            steps += 1
            share = (time.process_time() - began) / seconds
            if share >= 1:
                break
    return embedder.eval(), steps


@torch.no_grad()
def embed(network: nn.Module, pixels: Tensor) -> Tensor:
    """Return rows of length 1."""
    rows = torch.cat([network(some) for some in pixels.split(256)])
    return nn.functional.normalize(rows)


def judge(network: nn.Module, ground: Ground) -> dict[str, Any]:
    """Return Recall@1 and MAP@R leave-one-out, and where classes are known the share with a right nearest neighbor."""
    train, judged = (embed(network, part.pixels) for part in (ground.train, ground.judged))
    return judge_rows(train, judged, ground)


def judge_rows(train: Tensor, judged: Tensor, ground: Ground) -> dict[str, Any]:
    """Return the figures of rows."""
    measures = ("recall_at", "map_at_r")
    scores = evaluate(judged, ground.judged.labels, measures=measures, recall_at=(1,), progress=False)
    figures: dict[str, Any] = {"recall_at_1": scores.recall_at[1], "map_at_r": scores.map_at_r, "nearest": None}
    if ground.known:
        gallery = {"gallery": train, "gallery_labels": ground.train.labels}
        nearest = evaluate(
            judged, ground.judged.labels, measures=("recall_at",), recall_at=(1,), progress=False, **gallery
        )
        figures["nearest"] = nearest.recall_at[1]
    return figures
