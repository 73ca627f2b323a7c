"""A run ready to go: data, embedder, loss, optimizer, sampler on their device, at the start or where it was saved.

Weights of convolutions lie in memory with the channels last: measured here, a step of small_cnn then takes a third of
its time.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import torch
from accelerate import Accelerator
from accelerate.tracking import get_available_trackers
from accelerate.utils import broadcast_object_list
from torch import Tensor, nn

from shadowmetric.app.data.augmentation import AUTO
from shadowmetric.app.models import Embedder
from shadowmetric.app.models.from_settings import embedder_for
from shadowmetric.app.training import checkpoint
from shadowmetric.app.training.checkpoint import State
from shadowmetric.app.training.features.first_head import first_embedder
from shadowmetric.app.training.interrupt import Stop
from shadowmetric.app.training.memory import (
    MEGABYTE,
    Setting,
    check_micro_batch,
    memory_notes,
    plan_memory,
    set_scratch,
    with_plan,
)
from shadowmetric.app.training.other_ranks import check_same_on_all, split_digest
from shadowmetric.app.training.preparation import Parts, prepare
from shadowmetric.app.training.runs.limits import unreachable_margin
from shadowmetric.app.training.runs.lock import RunLock
from shadowmetric.app.training.runs.recipes import HEAD_ONLY, Recipe
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings, recipe_settings
from shadowmetric.app.training.scoring import BATCH, How
from shadowmetric.app.training.show import Show, Silent
from shadowmetric.app.training.steps.average import WeightAverage
from shadowmetric.app.training.steps.optimizer import build_optimizer
from shadowmetric.batches import CrossBatchMemory, GatheredLoss
from shadowmetric.batches.budget import Plan
from shadowmetric.batches.hard_sampler import HardNegativeSampler
from shadowmetric.batches.meter import give_back_at_once
from shadowmetric.batches.sampler import BatchSampler, PKSampler, ShuffledSampler
from shadowmetric.errors import Mistake
from shadowmetric.integrations.pml_losses import PREFIX, build_pml_loss
from shadowmetric.losses.catalogue import build_loss
from shadowmetric.losses.length_penalty import LengthPenalty
from shadowmetric.losses.sums import SummedLoss

Found = TypeVar("Found")


@dataclass(eq=False)
class Training:
    """Everything that a run works with."""

    run: Run
    parts: Parts
    recipe: Recipe
    embedder: nn.Module  # as accelerate wraps it
    loss: nn.Module
    optimizer: Any  # as accelerate wraps it
    sampler: BatchSampler
    accelerator: Accelerator
    show: Show
    state: State
    lock: RunLock
    plan: Plan | None = None  # where there is a budget
    average: WeightAverage | None = None  # where weights are averaged
    forecast: Any = None  # a Forecast, where somebody wants to know

    @property
    def settings(self) -> TrainSettings:
        """Return the resolved settings."""
        return self.parts.settings

    @property
    def bare_embedder(self) -> Embedder:
        """Return the embedder as it was built."""
        return self.accelerator.unwrap_model(self.embedder)

    @property
    def gathered_loss(self) -> GatheredLoss:
        """Return the loss of the whole batch of all processes."""
        return GatheredLoss(self.loss)

    def sentences(self) -> tuple[str, ...]:
        """Say what was prepared."""
        parts, settings, embedder = self.parts, self.settings, self.bare_embedder
        memory = memory_notes(self.plan, settings.micro_batch, self.sampler.most_images(), embedder)
        margins = unreachable_margin({str(settings.loss): settings.margin}, unit_rows=settings.unit_rows)
        return (*parts.notes, *parts.seen, *embedder.notes, self.sampler.sentence(), *memory, *margins)

    @property
    def how(self) -> How:
        """Return how much is embedded and evaluated at once."""
        settings, shared = self.settings, self.accelerator.num_processes > 1
        if settings.memory_budget is None:
            return How(shared=shared)
        return How(min(BATCH, settings.micro_batch or BATCH), settings.scratch_mb * MEGABYTE, shared)

    def stateful_parts(self) -> dict[str, Any]:
        """Return what has a state dict."""
        embedder = self.bare_embedder
        learned = embedder.head if self.settings.recipe == HEAD_ONLY else embedder
        parts = {"embedder": learned, "loss": self.loss, "optimizer": self.optimizer}
        if isinstance(self.sampler, HardNegativeSampler):
            parts["mined"] = self.sampler.mined
        if self.average is not None:
            parts["average"] = self.average
        return parts if self.accelerator.scaler is None else parts | {"scaler": self.accelerator.scaler}

    def averaged_weights(self) -> AbstractContextManager[None]:
        """Let the embedder have the weights that are judged and kept, for a while."""
        return nullcontext() if self.average is None else self.average.in_place()

    def save(self) -> None:
        """Save what a resume needs."""
        self.write_state()
        self.accelerator.wait_for_everyone()

    def write_state(self) -> None:
        """Write the state, without waiting for the other processes."""
        if self.accelerator.is_main_process:
            self.lock.check()
            checkpoint.save(self.run, self.state, self.stateful_parts())

    def anywhere(self, *conditions: bool) -> list[bool]:
        """Return of each whether it is so on any process."""
        if self.accelerator.num_processes == 1:
            return list(conditions)
        flags = torch.tensor([float(one) for one in conditions], device=self.accelerator.device)
        return (cast(Tensor, self.accelerator.reduce(flags, "sum")) > 0).tolist()

    def share_gradients_of_loss(self) -> None:
        """Let the centers of a loss have the mean gradient of all processes, as the embedder has."""
        if self.accelerator.num_processes > 1:
            for parameter in self.loss.parameters():
                if parameter.grad is not None:
                    parameter.grad = cast(Tensor, self.accelerator.reduce(parameter.grad, "mean"))


def from_main(accelerator: Accelerator, make: Callable[[], Found]) -> Found:
    """Return what the main process makes, on every process; what it raises is raised on every one."""
    if accelerator.num_processes == 1:
        return make()
    outcome: list[Any] = [None, None]
    if accelerator.is_main_process:
        try:
            outcome[0] = make()
        except Exception as error:
            outcome[1] = error
    value, error = broadcast_object_list(outcome)
    if error is not None:
        raise error
    return value


def set_up(
    settings: TrainSettings,
    run: Run,
    show: Show,
    stop: Stop | None = None,
    *,
    resume: bool,
    lock: RunLock | None = None,
) -> Training:
    """Prepare a run; a new one gets its folder. The lock is taken by the main process, and given back by the caller."""
    lock = lock or RunLock(run)

    def report(stage: str, share: float) -> None:
        if stop is not None and stop.asked:
            raise KeyboardInterrupt  # nothing is worth saving yet
        show.stage(stage, share)

    if not resume:
        run.check_free()
    checkpoint.seed_everything(settings.seed)
    parts = prepare(settings, report, features=settings.recipe == HEAD_ONLY)
    accelerator = accelerator_for(parts.settings, run)
    check_same_on_all(parts, accelerator)
    if resume:
        from_main(accelerator, lock.take)
    begun = resume and run.state_file.exists()  # then the first weights are not needed again
    training = assemble(parts, run, show, accelerator, lock=lock, begun=begun)
    if not resume:
        from_main(accelerator, lambda: (lock.take(), run.begin(training.settings))[1])
    training.show.notes(training.sentences())
    training.state = checkpoint.load(run, training.stateful_parts()) or training.state
    check_same_data(training)
    training.show.notes(checkpoint.changed_ranks(training.state, accelerator.num_processes))
    if training.plan is not None:
        training.state.predicted = training.plan.predicted
    if accelerator.process_index > 0:  # else all processes would drop the same units of their images
        torch.manual_seed(settings.seed + 7919 * accelerator.process_index + training.state.step)
    if accelerator.is_main_process:
        run.write_journal(training.state.lines)
    if settings.track:
        accelerator.init_trackers("shadowmetric", config={"loss": training.settings.loss, "seed": settings.seed})
    return training


def accelerator_for(settings: TrainSettings, run: Run) -> Accelerator:
    """Return what places a run on its device, in its precision."""
    settings = with_precision(settings)
    check_tracker(settings.track)
    accelerator = Accelerator(
        mixed_precision=settings.precision,
        cpu=settings.device == "cpu",
        log_with=settings.track,
        project_dir=str(run.folder),
    )
    if settings.precision == "fp16" and accelerator.device.type == "cpu":
        raise Mistake("--precision fp16 needs a GPU; on a CPU use bf16 or no.")
    return accelerator


def assemble(
    parts: Parts, run: Run, show: Show, accelerator: Accelerator, *, lock: RunLock | None = None, begun: bool = False
) -> Training:
    """Return embedder, loss, optimizer and batches for the images, on their device; nothing is written.

    begun: the weights come from a checkpoint, and need not be read.
    """
    parts = replace(parts, settings=with_precision(parts.settings))
    settings, recipe = parts.settings, recipe_settings(parts.settings)
    frozen = settings.recipe == HEAD_ONLY  # then the state has the head alone
    embedder = embedder_for(replace(settings, weights=None)) if begun and not frozen else first_embedder(parts)
    if frozen:
        embedder.backbone.requires_grad_(False)
    embedder.to(accelerator.device)
    loss = loss_for(settings, parts.classes).to(accelerator.device)
    wrapped, optimizer = accelerator.prepare(embedder, build_optimizer(embedder, loss, recipe))
    check_micro_batch(settings.micro_batch, embedder)
    plan = None
    if settings.memory_budget is not None:
        give_back_at_once()
    if settings.memory_budget is not None and not begun:
        setting = Setting(parts, recipe, embedder, loss, accelerator.device, accelerator.num_processes)
        plan = from_main(accelerator, lambda: plan_memory(setting))
        set_scratch(loss, plan.scratch)
        settings = with_plan(settings, plan)
        parts = replace(parts, settings=settings)
    sampler = sampler_for(parts, recipe, accelerator)
    show = show if accelerator.is_main_process else Silent()
    lock = lock or RunLock(run)
    training = Training(run, parts, recipe, wrapped, loss, optimizer, sampler, accelerator, show, State(), lock, plan)
    if recipe.average != "none":
        training.average = WeightAverage(training.bare_embedder, recipe.average, recipe.epochs * len(sampler))
    return training


def sampler_for(parts: Parts, recipe: Recipe, accelerator: Accelerator) -> BatchSampler:
    """Return the batches of a run: some of each class, beside its rivals if they are mined, or images as they come."""
    settings = parts.settings
    how: dict[str, Any] = {
        "seed": settings.seed,
        "batches": settings.batches,
        "rank": accelerator.process_index,
        "ranks": accelerator.num_processes,
        "multiple": settings.micro_batch or 1,
    }
    if settings.mine_from_all:
        return HardNegativeSampler(parts.train.labels, recipe.batch, max(recipe.per_class, 2), **how)
    if recipe.per_class == 1:
        return ShuffledSampler(len(parts.train), recipe.batch, **how)
    return PKSampler(parts.train.labels, recipe.batch, recipe.per_class, **how)


def with_precision(settings: TrainSettings) -> TrainSettings:
    """Return the settings with the mixed precision that suits the device, where that is left to it."""
    if settings.precision != AUTO:
        return settings
    suits = settings.device != "cpu" and torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    return replace(settings, precision="bf16" if suits else "no")


def loss_for(settings: TrainSettings, classes: int) -> nn.Module:
    """Return the loss that settings describe, with a memory if they ask for one."""
    name = str(settings.loss)
    build: Callable[..., nn.Module] = build_pml_loss if name.startswith(PREFIX) else build_loss
    loss = build(
        name,
        margin=settings.margin,
        miner=settings.miner,
        classes=classes,
        dim=settings.dim,
        scratch_bytes=settings.scratch_mb * MEGABYTE,
        unit_rows=settings.unit_rows,
        mining_unit=settings.mining_unit or "loss",
    )
    if settings.length_penalty:
        loss = LengthPenalty(cast(SummedLoss, loss), settings.length_penalty)
    if settings.cross_batch_memory == 0:
        return loss
    return CrossBatchMemory(loss, settings.cross_batch_memory, warmup=settings.cross_batch_warmup)


def check_same_data(training: Training) -> None:
    """Refuse to go on with other training images than the run began with."""
    digest = split_digest(training.parts.train)
    if training.state.data not in ("", digest):
        raise Mistake(
            f"the training images of {training.settings.data} are not those that {training.run.folder} began with; "
            "bring them back, or train anew."
        )
    training.state.data = digest


def check_tracker(track: str | None) -> None:
    """Refuse a tracker that is not installed."""
    there = [tracker.value for tracker in get_available_trackers()]
    if track is not None and track not in there:
        known = f"installed here: {', '.join(there)}" if there else "none is installed"
        one = "such as tensorboard by `pip install 'shadowmetric[tensorboard]'`"
        raise Mistake(f"--track is {track!r}; {known}. Install the one you want, {one}.")
