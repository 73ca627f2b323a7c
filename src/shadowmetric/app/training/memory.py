"""What a run needs in memory, and the micro-batch that keeps it within `--memory-budget`.

The budget is of one process, libraries included, as `top` shows it; on a GPU it is of the device's memory. Worker
processes that read images come on top.
"""

from dataclasses import dataclass, is_dataclass, replace
from typing import cast

import torch
from torch import nn

from shadowmetric.app.models import Embedder
from shadowmetric.app.training.preparation import Parts
from shadowmetric.app.training.runs.recipes import Recipe
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.app.training.scoring import parts_to_score
from shadowmetric.app.training.steps.mining_epochs import mine_as_at
from shadowmetric.batches.budget import (
    LEAST_SCRATCH,
    PROBE_BYTES,
    Needs,
    Plan,
    Probe,
    least_micro_batch,
    make_plan,
    parse_bytes,
    probe_embedder,
)
from shadowmetric.batches.cached import BATCH_NORM_CHANGES, uses_batch_statistics
from shadowmetric.batches.meter import held_bytes
from shadowmetric.batches.sampler import shares
from shadowmetric.errors import Mistake
from shadowmetric.evaluation.collapse import collapse_bytes
from shadowmetric.losses.sums import SummedLoss
from shadowmetric.ops.memory import Sizes

MEGABYTE = 2**20
PROBE_IMAGES = 64
STATES = {"adam": 2, "adamw": 2, "sgd": 1}  # numbers that an optimizer keeps for each weight


@dataclass(frozen=True, eq=False)
class Setting:
    """What a plan is made for."""

    parts: Parts
    recipe: Recipe
    embedder: Embedder
    loss: nn.Module
    device: torch.device
    ranks: int


def plan_memory(setting: Setting) -> Plan:
    """Return the plan that keeps a run within its budget; refuse one that can't be kept."""
    settings = setting.parts.settings
    budget = parse_bytes(settings.memory_budget or "")
    held = held_bytes(setting.device)
    if held is None:
        raise Mistake("--memory-budget needs /proc, which this system has not; choose a --micro-batch instead.")
    batch = batch_of(setting)
    return make_plan(
        budget,
        needs_of(setting, held, batch),
        probe_step(setting, max(budget - held, 0) // 4),
        batch,
        micro_batch=settings.micro_batch,
        least=least_micro_batch(setting.embedder),
        scratch=max(settings.scratch_mb * MEGABYTE, LEAST_SCRATCH),
    )


def expected_peak(setting: Setting) -> int | None:
    """Return what a run without a budget will hold at its peak; None where that can't be told."""
    settings, held = setting.parts.settings, held_bytes(setting.device)
    if held is None or not hasattr(setting.loss, "memory"):  # a loss of another library states none
        return None
    batch = batch_of(setting)
    micro_batch, scratch = min(settings.micro_batch or batch, batch), settings.scratch_mb * MEGABYTE
    needs, probe = needs_of(setting, held, batch), probe_step(setting, PROBE_BYTES)
    return Plan(0, needs, probe, batch, micro_batch, scratch).predicted


def batch_of(setting: Setting) -> int:
    """Return the images of a batch that a process has."""
    return -(-min(setting.recipe.batch, len(setting.parts.train)) // setting.ranks)


def probe_step(setting: Setting, most: int) -> Probe:
    """Return what a step of the embedder takes; most: bytes that finding out may take."""
    settings = setting.parts.settings
    shape = (PROBE_IMAGES, settings.channels or 3, settings.size or 0, settings.size or 0)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    setting.embedder.train()
    return probe_embedder(setting.embedder, images.to(setting.device), most=most)


def needs_of(setting: Setting, held: int, batch: int) -> Needs:
    """Return what a run needs besides the step of its embedder."""
    settings, recipe = setting.parts.settings, setting.recipe
    learned = [*setting.embedder.parameters(), *setting.loss.parameters()]
    weights = sum(parameter.numel() * parameter.element_size() for parameter in learned if parameter.requires_grad)
    on_cpu = setting.device.type == "cpu"
    image = (settings.channels or 3) * (settings.size or 0) ** 2
    rows = 4 * settings.dim
    scored = sum(len(split) for split in parts_to_score(setting.parts.dataset).values())
    return Needs(
        held=held,
        optimizer=STATES[recipe.optimizer] * weights + weights * (setting.ranks > 1),  # ranks send copies of gradients
        gradients=weights,
        images=batch * image * on_cpu,
        rows=3 * recipe.batch * rows,
        loss=loss_bytes(setting),
        evaluation=2 * scored * rows * on_cpu + collapse_bytes(len(setting.parts.dataset.test), settings.dim),
    )


def loss_bytes(setting: Setting) -> int:
    """Return what mining and the loss need beyond rows and scratch: their memory contract."""
    settings, recipe = setting.parts.settings, setting.recipe
    batch = min(recipe.batch, len(setting.parts.train))
    remembered, classes = settings.cross_batch_memory, setting.parts.classes
    positives = sum(count * (count - 1) for count in shares(batch, recipe.per_class, classes))
    positives += batch * remembered // classes
    against_others = remembered > 0 or setting.ranks > 1
    sizes = Sizes(
        rows=-(-batch // setting.ranks),
        dim=settings.dim,
        positives=positives // setting.ranks,
        references=batch + remembered if against_others else None,
        centers=sum(len(parameter) for parameter in setting.loss.parameters()),
    )
    costs = []
    for epoch in (0, settings.semi_hard_epochs):  # miners differ
        mine_as_at(setting.loss, settings, epoch)
        costs.append(cast(SummedLoss, setting.loss).memory(references=against_others).peak(sizes))
    return max(max(costs) - settings.scratch_mb * MEGABYTE, 0) + 8 * remembered * settings.dim


def with_plan(settings: TrainSettings, plan: Plan) -> TrainSettings:
    """Return the settings with what a plan decided."""
    return replace(settings, micro_batch=plan.micro_batch, scratch_mb=plan.scratch // MEGABYTE)


def memory_notes(plan: Plan | None, micro_batch: int | None, batch: int, embedder: Embedder) -> list[str]:
    """Return the plan, and what micro-batches change. batch: the images of this process."""
    notes = [] if plan is None else [plan.sentence()]
    if micro_batch is None or micro_batch >= batch:
        return notes
    if plan is None:
        notes.append(f"Batches of {batch} images are embedded {micro_batch} at a time.")
    if uses_batch_statistics(embedder.train()):
        notes.append(f"Note that {BATCH_NORM_CHANGES.format(micro_batch)}.")
    return notes


def check_micro_batch(micro_batch: int | None, embedder: Embedder) -> None:
    """Refuse a micro-batch that the embedder can't be trained with."""
    least = least_micro_batch(embedder.train())
    if micro_batch is not None and micro_batch < least:
        raise Mistake(
            f"--micro-batch is {micro_batch}, and batch normalization takes its statistics from at least {least} "
            "images; raise it, or give --freeze-batch-norm."
        )


def set_scratch(loss: nn.Module, scratch_bytes: int) -> None:
    """Let a loss, and the miner that it has, use no more than this."""
    for module in loss.modules():
        if hasattr(module, "scratch_bytes"):
            module.scratch_bytes = scratch_bytes  # pyright: ignore[reportArgumentType]
        miner = module.__dict__.get("miner")
        if is_dataclass(miner) and not isinstance(miner, type) and hasattr(miner, "scratch_bytes"):
            module.miner = replace(miner, scratch_bytes=scratch_bytes)  # pyright: ignore[reportArgumentType]
