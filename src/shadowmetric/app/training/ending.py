"""The end of a run: the test split, scored once with the best weights."""

import importlib.metadata
from typing import Any

import torch

from shadowmetric.app.training.features.floor import pooled_floor
from shadowmetric.app.training.interrupt import Stop
from shadowmetric.app.training.runs.headline import NEAREST
from shadowmetric.app.training.runs.origin import origin
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.tensor_files import load_tensors, save_tensors
from shadowmetric.app.training.scoring import score_test
from shadowmetric.app.training.setup import Training
from shadowmetric.batches.budget import parse_bytes
from shadowmetric.batches.meter import peak_bytes
from shadowmetric.errors import Interrupted
from shadowmetric.evaluation import Scores
from shadowmetric.evaluation.plateau import TOLERANCE, convergence_epoch
from shadowmetric.ops.ranks import broadcast_tensors
from shadowmetric.progress import Report

KEPT_VALUES = ("recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "map_at_r", "r_precision", "accuracy")
KEPT_VALUES = (*KEPT_VALUES, NEAREST)


def finish(training: Training, stop: Stop) -> dict[str, Any]:
    """Score the test split with the best weights, and write the scores."""

    def report(stage: str, share: float) -> None:
        if stop.asked and training.accelerator.num_processes == 1:
            raise Interrupted(training.run.resume_command())  # the state of the last epoch is saved
        training.show.stage(f"test split: {stage}", share)

    return score_best(training, report)


def score_best(training: Training, report: Report) -> dict[str, Any]:
    """Return the scores of the best weights, after writing them."""
    run, parts, state = training.run, training.parts, training.state
    if training.accelerator.is_main_process:
        training.lock.check()
        run.check(run.best_file)
        training.bare_embedder.load_state_dict(load_tensors(run.best_file))
    broadcast_tensors(training.bare_embedder.state_dict().values())
    scores, figures = score_test(training.bare_embedder, parts.dataset, parts.shape, report, training.how)
    recalls = [line["recall_at_1"] for line in state.lines]
    figures |= pooled_floor(parts, training.accelerator.device, training.how, report)
    record = figures | {
        "convergence_epoch": None if None in recalls or not recalls else convergence_epoch(recalls),
        "convergence_rule": f"first epoch after which the best Recall@1 rises by less than {100 * TOLERANCE:g} points",
        "epochs": state.epoch,
        "best_epoch": state.best_epoch,
        "selected_on": selected_on(training, recalls),
        "train_seconds": sum(line["seconds"] for line in state.lines),
        "notes": list(parts.notes),
        "version": importlib.metadata.version("shadowmetric"),
        "torch": torch.__version__,
        "origin": origin(),
    }
    if training.settings.memory_budget is not None:
        device, budget = training.accelerator.device, parse_bytes(training.settings.memory_budget)
        figures = {"budget": budget, "predicted": state.predicted or None, "peak": peak_bytes(device)}
        record["memory_bytes"] = figures
    if training.accelerator.is_main_process:
        training.lock.check()
        write_queries(run, scores)
        run.write_scores(record)
    training.accelerator.wait_for_everyone()
    if training.settings.track:
        training.accelerator.end_training()
    return run.scores() or record


def selected_on(training: Training, recalls: list[float | None]) -> str:
    """Return what the best epoch was chosen on, if there is one."""
    if not recalls:
        return "nothing: not trained"
    return training.settings.select_on if recalls != [None] * len(recalls) else "nothing: the last epoch"


def write_queries(run: Run, scores: Scores) -> None:
    """Write what each query contributed."""
    values = {name: scores.per_query[name] for name in KEPT_VALUES if name in scores.per_query}
    values["labels"] = scores.labels
    run.write(run.queries_file, lambda place: save_tensors(place, values))
