"""Training, top to bottom: batches, steps, an epoch's judgment, checkpoints, and at the end the test split.

    while epochs remain and Recall@1 has not reached its plateau:
        for each batch of the epoch that is not done:   embed, loss, backward, step
        score the validation part, keep the weights if they are the best so far, write the journal's line
    score the test split with the best weights

A state is saved at the end of each epoch, every `save_every` seconds within one, and when the user stops the run.
Accelerate places everything on the device there is, in the precision asked for.
"""

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shadowmetric.app.data.augmentation import Augmentation
from shadowmetric.app.data.loading import Batch, choose_workers, training_batches
from shadowmetric.app.training.checkpoint import check_saved
from shadowmetric.app.training.ending import finish
from shadowmetric.app.training.epoch import finish_epoch, keep_first_weights, stopped_improving
from shadowmetric.app.training.interrupt import Stop
from shadowmetric.app.training.other_ranks import say_who_is_gone
from shadowmetric.app.training.planning.dry_run import say_plan
from shadowmetric.app.training.runs.lock import RunLock
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings, check_settings, with_recipe
from shadowmetric.app.training.setup import Training, set_up
from shadowmetric.app.training.show import Moment, Show, Silent
from shadowmetric.app.training.steps.hard_batches import mine_whole_set
from shadowmetric.app.training.steps.mining_epochs import announce_miner, mine_as_at
from shadowmetric.app.training.steps.optimizer import set_rates, share_of_peak
from shadowmetric.app.training.steps.step import backward
from shadowmetric.app.training.steps.tally import Tally
from shadowmetric.app.training.steps.watch import COLLAPSED_COSINE, LOOK_EVERY, Watch, look, some_of
from shadowmetric.batches.meter import peak_bytes
from shadowmetric.errors import Interrupted
from shadowmetric.ops.ranks import ranks_here, sum_over_ranks
from shadowmetric.runtime.files import write_json


def train(
    settings: TrainSettings,
    out: Path,
    *,
    resume: bool = False,
    here: TrainSettings | None = None,
    show: Show | None = None,
    stop: Stop | None = None,
) -> dict[str, Any]:
    """Train a run into its folder, or go on with the one that is there; return its scores.

    here: settings whose places are those of this machine, for a run that another one began.
    """
    run, show = Run(out), show or Silent()
    if resume:
        settings, scores = run.settings(), run.scores()
        if scores is not None:
            return scores
        check_saved(run)
        settings = settings if here is None else relocate_settings(settings, here)
    check_settings(settings)
    lock = RunLock(run)
    try:
        with say_who_is_gone(run, int(os.environ.get("WORLD_SIZE", "1"))), stop or Stop() as stop:
            training = set_up(settings, run, show, stop, resume=resume, lock=lock)
            alone, begins = training.accelerator.num_processes == 1, training.state.step == 0 < training.recipe.epochs
            if training.show.wants_plan() and alone and begins:
                training.forecast = say_plan(training, settings)
            began = time.monotonic()
            while training.state.epoch < training.recipe.epochs and not stopped_improving(training):
                train_epoch(training, stop)
                finish_epoch(training, stop)
            if training.recipe.epochs == 0:
                keep_first_weights(training)
            scores = finish(training, stop)
            training.show.notes(outcome(training, time.monotonic() - began))
            return scores
    finally:
        lock.give_back()
        show.close()


def outcome(training: Training, measured: float) -> tuple[str, ...]:
    """Say what was planned and what it took, and write it down."""
    run, plan, epochs = training.run, training.forecast, training.state.epoch
    if plan is None:
        return ()
    figures = {"epochs": epochs, "seconds": measured, "bytes": peak_bytes(training.accelerator.device)}
    run.write(run.plan_file, lambda place: write_json(place, {"planned": plan.plain(epochs), "measured": figures}))
    return (plan.outcome(measured, epochs, figures["bytes"]),)


def relocate_settings(settings: TrainSettings, here: TrainSettings) -> TrainSettings:
    """Return a run's settings with the data of this machine, and its file of weights if the run's own is not there."""
    here = with_recipe(here)
    theirs, ours = (Path(choice.weights or "") for choice in (settings, here))
    lost = theirs.name == ours.name and not theirs.is_file() and ours.is_file()
    return replace(settings, data_root=here.data_root, weights=here.weights if lost else settings.weights)


def train_epoch(training: Training, stop: Stop) -> None:
    """Train on the batches of the epoch that are not done."""
    state, sampler, settings = training.state, training.sampler, training.settings
    if state.position == len(sampler):
        return
    sampler.load_state_dict({"epoch": state.epoch, "position": state.position})
    watch, tally = Watch(state.in_a_row), Tally(state.sums)
    mine_as_at(training.loss, settings, state.epoch)
    training.show.notes(announce_miner(settings, state.epoch) if state.position == 0 else ())
    last = saved = time.monotonic()
    mine_whole_set(training)
    training.embedder.train()
    for batch in batches(training):
        train_step(training, batch, watch, tally)
        state.position += 1
        state.step += 1
        now = time.monotonic()
        tally.add(seconds=now - last)
        last = now
        if training.show.wants():
            training.show.moment(moment(training, watch, tally))
        stopping, due = training.anywhere(stop.asked, now - saved >= settings.save_every)
        if stopping or due:
            training.save()
            saved = time.monotonic()
        if stopping:
            raise Interrupted(training.run.resume_command())


def batches(training: Training):
    """Return the batches of the sampler's epoch, from its position on."""
    parts, settings = training.parts, training.settings
    workers = settings.workers
    if workers is None:
        workers = choose_workers(parts.train, torch.get_num_threads())
    augmentation = Augmentation(training.recipe.augment, parts.dataset.mirrors)
    return training_batches(parts.train, parts.shape, augmentation, training.sampler, workers)


def train_step(training: Training, batch: Batch, watch: Watch, tally: Tally) -> None:
    """Learn from one batch, and count what it was like."""
    state, accelerator, optimizer = training.state, training.accelerator, training.optimizer
    set_rates(optimizer, share_of_peak(state.step, steps_of(training), training.recipe.warmup))
    labels = batch.labels.to(accelerator.device)
    value, embeddings = backward(training, batch, labels)
    training.share_gradients_of_loss()
    number, pushed, gradient = facts(value, embeddings, accelerator.scaler)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if training.average is not None:
        training.average.add(state.step + 1)
    everyone = training.parts.train.labels[batch.whole]
    one_class = bool((everyone == everyone[0]).all())
    tally.add(batches=1, images=len(everyone), loss=number, dead=number == 0, one_class=one_class)
    tally.add(pushed=pushed, gradient=gradient)
    if state.step % LOOK_EVERY == 0:
        seen = look(*some_of(embeddings, labels), training.loss)
        tally.add_look(seen)
        watch.note("collapse", bool(seen.negative_gaps) and seen.mean_cosine > COLLAPSED_COSINE)
    watch.note("dead", number == 0)
    watch.note("one_class", one_class)


def facts(value: Tensor, embeddings: Tensor, scaler: Any) -> list[float]:
    """Return the loss, the share of rows with a gradient and a gradient's mean length, with one wait for a GPU."""
    if embeddings.grad is None:
        return [float(value), 0.0, 0.0]
    gradient = torch.linalg.vector_norm(embeddings.grad.float(), dim=1) / ranks_here().ranks
    if scaler is not None:  # fp16 takes the gradient of a scaled loss
        gradient = gradient / scaler.get_scale()
    sums = sum_over_ranks(
        torch.stack([(gradient > 0).float().sum(), gradient.sum(), gradient.new_tensor(len(gradient))])
    )
    return torch.stack([value.float(), *(sums[:2] / sums[2])]).tolist()


def steps_of(training: Training) -> int:
    """Return the batches of all epochs."""
    return training.recipe.epochs * len(training.sampler)


def moment(training: Training, watch: Watch, tally: Tally) -> Moment:
    """Return where the run stands, from the means of the epoch so far."""
    state, sums = training.state, tally.sums
    speed = sums["images"] / max(sums["seconds"], 1e-9)
    spent = sum(line["seconds"] + line["validation_seconds"] for line in state.lines) + sums["seconds"]
    return Moment(
        epoch=state.epoch + 1,
        epochs=training.recipe.epochs,
        batch=state.position,
        batches=len(training.sampler),
        loss=tally.mean("loss") or 0.0,
        images_per_second=speed,
        active=tally.mean("active", "looks"),
        positive_gap=tally.mean("positive_gap_50", "gap_looks"),
        negative_gap=tally.mean("negative_gap_50", "gap_looks"),
        seconds_left=spent * (steps_of(training) - state.step) / max(state.step, 1),
        warnings=watch.warnings(),
    )
