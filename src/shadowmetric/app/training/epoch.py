"""The end of an epoch: judged on the validation part, noted in the journal, saved."""

import time
from typing import Any

from shadowmetric.app.training.interrupt import Stop
from shadowmetric.app.training.runs.tensor_files import save_tensors
from shadowmetric.app.training.scoring import score_epoch, score_test
from shadowmetric.app.training.setup import Training
from shadowmetric.app.training.steps.tally import Tally
from shadowmetric.app.training.steps.watch import COLLAPSED_RANK, Watch
from shadowmetric.batches.meter import peak_bytes
from shadowmetric.errors import Interrupted
from shadowmetric.evaluation.plateau import has_plateaued
from shadowmetric.ops.ranks import broadcast_tensors
from shadowmetric.runtime.files import without_nan


def finish_epoch(training: Training, stop: Stop) -> None:
    """Judge the epoch, keep its weights if they are the best, write its line, save the state."""
    state = training.state

    def report(stage: str, share: float) -> None:
        if stop.asked and training.accelerator.num_processes == 1:  # ranks wait for one another, and stop afterwards
            raise Interrupted(training.run.resume_command())
        training.show.stage(f"epoch {state.epoch + 1}: {stage}", share)

    began = time.monotonic()
    broadcast_tensors(training.bare_embedder.buffers())  # running statistics are each process's own until now
    try:
        with training.averaged_weights():
            judged = without_nan(judge_epoch(training, report))
    except Interrupted:
        training.write_state()  # as before the judgment, which a resume repeats
        raise
    is_best = judged["recall_at_1"] is None or judged["recall_at_1"] > state.best
    watch = Watch(state.in_a_row)
    if judged["effective_rank"] is not None:
        watch.note("rank", judged["effective_rank"] < COLLAPSED_RANK)
    line = {"epoch": state.epoch + 1, "step": state.step, "learning_rate": training.optimizer.param_groups[0]["lr"]}
    line |= Tally(state.sums).line() | judged | {"is_best": is_best}
    line |= {"validation_seconds": time.monotonic() - began, "warnings": watch.warnings()}
    state.lines.append(without_nan(line))
    state.epoch, state.position, state.sums = state.epoch + 1, 0, {}
    if is_best:
        state.best, state.best_epoch = judged["recall_at_1"] or 0.0, state.epoch
        if training.accelerator.is_main_process:
            training.lock.check()
            with training.averaged_weights():
                weights = training.bare_embedder.state_dict()
                training.run.write(training.run.best_file, lambda place: save_tensors(place, weights))
    training.save()
    if training.accelerator.is_main_process:
        training.run.write_journal(state.lines)
    training.show.epoch(state.lines[-1])
    if state.epoch == 1:
        training.show.notes(memory_outcome(training))
    if training.settings.track:
        numbers = {name: value for name, value in line.items() if isinstance(value, int | float)}
        training.accelerator.log(numbers, step=state.step)


def keep_first_weights(training: Training) -> None:
    """Keep the weights as they are, where nothing is to be trained."""
    if training.accelerator.is_main_process:
        weights = training.bare_embedder.state_dict()
        training.lock.check()
        training.run.write(training.run.best_file, lambda place: save_tensors(place, weights))


def memory_outcome(training: Training) -> tuple[str, ...]:
    """Say what a budget's plan predicted and what was measured."""
    measured = peak_bytes(training.accelerator.device)
    return () if training.plan is None or measured is None else (training.plan.outcome(measured),)


def judge_epoch(training: Training, report: Any) -> dict[str, Any]:
    """Return the figures of what epochs are judged by; None for each if nothing is."""
    parts, embedder = training.parts, training.bare_embedder
    if training.settings.select_on == "test":
        test_figures = score_test(embedder, parts.dataset, parts.shape, report, training.how)[1]
        figures = {name: test_figures[name] for name in ("recall_at_1", "map_at_r", "silhouette")}
        return figures | {"effective_rank": test_figures["collapse"]["effective_rank"]}
    if parts.validation is None:
        return dict.fromkeys(("recall_at_1", "map_at_r", "silhouette", "effective_rank"))
    scores = score_epoch(embedder, parts.validation, parts.shape, report, training.how)
    assert scores.collapse is not None
    return {
        "recall_at_1": scores.recall_at[1],
        "map_at_r": scores.map_at_r,
        "silhouette": scores.silhouette,
        "effective_rank": scores.collapse.effective_rank,
    }


def stopped_improving(training: Training) -> bool:
    """Return whether the run has stopped improving for as long as its patience."""
    recalls = [line["recall_at_1"] for line in training.state.lines]
    patience = training.recipe.patience
    return patience > 0 and None not in recalls and has_plateaued(recalls, patience)
