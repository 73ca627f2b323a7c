"""A run ready to go: data, embedder, loss, optimiser, sampler on their device, at the start or where it was saved.

Weights of convolutions lie in memory with the channels last: measured here, a step of small_cnn then takes a third of
its time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
from accelerate import Accelerator
from accelerate.tracking import get_available_trackers
from accelerate.utils import broadcast_object_list
from torch import Tensor, nn

from shadowmetric.data.sampler import PKSampler
from shadowmetric.losses.catalogue import build_loss
from shadowmetric.mistakes import Mistake
from shadowmetric.models import Embedder, build_embedder
from shadowmetric.training import checkpoint
from shadowmetric.training.checkpoint import State
from shadowmetric.training.optimizer import build_optimizer
from shadowmetric.training.preparation import Parts, prepare
from shadowmetric.training.recipes import Recipe
from shadowmetric.training.run import Run
from shadowmetric.training.settings import TrainSettings, chosen_recipe
from shadowmetric.training.show import Show, Silent

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
    sampler: PKSampler
    accelerator: Accelerator
    show: Show
    state: State

    @property
    def settings(self) -> TrainSettings:
        """Return the resolved settings."""
        return self.parts.settings

    @property
    def bare_embedder(self) -> Embedder:
        """Return the embedder as it was built."""
        return self.accelerator.unwrap_model(self.embedder)

    def learnt(self) -> dict[str, Any]:
        """Return what has a state dict."""
        return {"embedder": self.bare_embedder, "loss": self.loss, "optimizer": self.optimizer}

    def save(self) -> None:
        """Save what a resume needs."""
        if self.accelerator.is_main_process:
            checkpoint.save(self.run.state_file, self.state, self.learnt())
        self.accelerator.wait_for_everyone()

    def from_main(self, make: Callable[[], Found]) -> Found:
        """Return what the main process makes, on every process."""
        if self.accelerator.num_processes == 1:
            return make()
        found = [make() if self.accelerator.is_main_process else None]
        return cast(Found, broadcast_object_list(found)[0])

    def anywhere(self, asked: bool) -> bool:
        """Return whether it is so on any process."""
        if self.accelerator.num_processes == 1:
            return asked
        flag = torch.tensor([float(asked)], device=self.accelerator.device)
        return bool(cast(Tensor, self.accelerator.reduce(flag, "sum")) > 0)


def set_up(settings: TrainSettings, run: Run, show: Show, *, resume: bool) -> Training:
    """Prepare a run; a new one gets its folder."""
    checkpoint.seed_everything(settings.seed)
    parts = prepare(settings, show.stage)
    settings, recipe = parts.settings, chosen_recipe(parts.settings)
    check_tracker(settings.track)
    accelerator = Accelerator(
        mixed_precision=settings.precision,
        cpu=settings.device == "cpu",
        log_with=settings.track,
        project_dir=str(run.folder),
    )
    embedder = embedder_for(settings, parts.shape.channels).to(accelerator.device)
    loss = build_loss(
        settings.loss, margin=settings.margin, miner=settings.miner, classes=parts.classes, dim=settings.dim
    ).to(accelerator.device)
    sampler = PKSampler(
        parts.train.labels,
        recipe.batch,
        recipe.per_class,
        seed=settings.seed,
        batches=settings.batches,
        rank=accelerator.process_index,
        ranks=accelerator.num_processes,
    )
    show = show if accelerator.is_main_process else Silent()
    wrapped, optimizer = accelerator.prepare(embedder, build_optimizer(embedder, loss, recipe))
    training = Training(run, parts, recipe, wrapped, loss, optimizer, sampler, accelerator, show, State())
    if not resume:
        training.from_main(lambda: run.begin(settings))
    show.notes((*parts.notes, *embedder.notes, sampler.sentence()))
    training.state = checkpoint.load(run.state_file, training.learnt()) or training.state
    if accelerator.is_main_process:
        run.write_journal(training.state.lines)
    if settings.track:
        accelerator.init_trackers("shadowmetric", config={"loss": settings.loss, "seed": settings.seed})
    return training


def check_tracker(track: str | None) -> None:
    """Refuse a tracker that is not installed."""
    there = [tracker.value for tracker in get_available_trackers()]
    if track is not None and track not in there:
        known = f"installed here: {', '.join(there)}" if there else "none is installed"
        raise Mistake(f"--track is {track!r}; {known}. Install the one you want, such as tensorboard.")


def embedder_for(settings: TrainSettings, channels: int) -> Embedder:
    """Return the embedder that resolved settings describe, untrained or with the weights that they name."""
    if settings.backbone is None or settings.size is None or settings.freeze_batch_norm is None:
        raise ValueError("the settings are not resolved; call `prepare` first.")
    embedder = build_embedder(
        settings.backbone,
        dim=settings.dim,
        channels=channels,
        size=settings.size,
        weights=settings.weights,
        seed=settings.seed,
        freeze_batch_norm=settings.freeze_batch_norm,
    )
    embedder.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    return embedder
