"""Losses × seeds on one dataset and budget, on equal terms.

For one seed every loss starts from the same weights, sees the same batches in the same order with the same random
changes, and is judged on the same validation part. Beside the methods stand

    controls    triplet_control and double_shadow (see losses/catalogue): equal by algebra, and Shadow's own but for a
                factor that AdamW ignores, so that what lies between them and Shadow is noise of training
    floors      raw_pixels, pooled_features of pretrained weights, and untrained: no training at all

A difference is judged twice. Over queries: values of each query, averaged over seeds, paired with the reference's.
Over seeds: the differences of the seeds themselves, mean ± spread; with three seeds that is a hint and no proof.
Every loss is judged so beside every floor too.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from filelock import FileLock

from shadowmetric.app.compare.cells import ensure_folder, run_cells
from shadowmetric.app.compare.floors import UNTRAINED, score_floor
from shadowmetric.app.compare.plan import Plan
from shadowmetric.app.compare.seed_intervals import Difference, interval
from shadowmetric.app.training.ending import write_queries
from shadowmetric.app.training.preparation import prepare
from shadowmetric.app.training.runs.headline import NEAREST
from shadowmetric.app.training.runs.origin import cores
from shadowmetric.app.training.runs.recipes import HEAD_ONLY
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.tensor_files import first_line, load_tensors
from shadowmetric.errors import Interrupted, Mistake
from shadowmetric.evaluation import PairedTest, Scores, paired_test
from shadowmetric.losses.catalogue import CONTROLS
from shadowmetric.progress import Report
from shadowmetric.runtime.files import write_text

FIGURES = ("recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "map_at_r", "r_precision", "silhouette")
FIGURES = (*FIGURES, "accuracy", "macro_f1", "nmi", NEAREST, "convergence_epoch")


class Lead(NamedTuple):
    """How far one row's Recall@1 is above another's, over queries and over seeds."""

    queries: PairedTest
    seeds: Difference

    @property
    def is_clear(self) -> bool:
        """Return whether it is more than the noise of the queries and, if there are two or more, of the seeds."""
        return (
            self.queries.low > 0
            and not self.queries.inside_the_noise
            and (self.seeds.low is None or self.seeds.low > 0)
        )


@dataclass(frozen=True)
class Row:
    """What one method reached over its seeds."""

    name: str
    kind: str  # "loss", "control" or "floor"
    figures: dict[str, list[float]]  # by name, one a seed
    beside: PairedTest | None  # Recall@1 less the reference's, over queries
    seed_differences: list[float]  # Recall@1 less the reference's, one a seed
    leads: dict[str, Lead] = field(default_factory=dict)  # of a loss, by floor

    def mean(self, figure: str) -> float | None:
        """Return the mean over seeds."""
        values = self.figures.get(figure, [])
        return float(np.mean(values)) if values else None

    def spread(self, figure: str) -> float | None:
        """Return the standard deviation over seeds; None for fewer than two."""
        values = self.figures.get(figure, [])
        return float(np.std(values, ddof=1)) if len(values) > 1 else None


def compare(plan: Plan, *, jobs: int | None = None, tell: Report | None = None) -> tuple[list[Row], dict[str, str]]:
    """Run what is missing of the plan, write compare.csv; return the rows of the table, and why cells failed."""
    try:
        compute_features(plan, tell)
        if plan.floors:
            run_floors(plan, tell)
        failures = run_cells(plan.cells(), jobs or plan.jobs or default_jobs(plan), tell)
    except (Interrupted, KeyboardInterrupt):
        raise Interrupted(plan.resume_command()) from None
    write_text(plan.out / "compare.csv", as_csv(plan))
    return rows_of(plan), failures


def default_jobs(plan: Plan) -> int:
    """Return one training a core, or one at a time on a GPU."""
    return 1 if torch.accelerator.is_available() and plan.settings.device != "cpu" else cores()


def run_floors(plan: Plan, tell: Report | None) -> None:
    """Score what needs no training; another process that does so is waited for."""

    def report(stage: str, share: float) -> None:
        if tell is not None:
            tell(f"floors: {stage} {100 * share:.0f} %", 0.0)

    with FileLock(ensure_folder(plan.out) / ".floors.lock"):
        score_floors(plan, report)


def score_floors(plan: Plan, report: Report) -> None:
    """Score the floors that are missing; only the untrained embedder has a seed, the others are scored once for all."""
    scored: dict[str, tuple[Scores, dict[str, Any]]] = {}
    prepare_once = lru_cache(maxsize=1)(prepare)  # floors of one seed share its images
    for seed in plan.all_seeds():
        for name in plan.floor_names():
            run = plan.run(name, seed)
            if run.scores() is not None:
                continue
            if name == UNTRAINED or name not in scored:
                report(name, 0.0)
                scored[name] = score_floor(name, replace(plan.settings, seed=seed), prepare_once, report)
            run.make_folder()
            write_queries(run, scored[name][0])
            run.write_scores(scored[name][1])


def compute_features(plan: Plan, tell: Report | None) -> None:
    """Let features be there before any process wants them, with all cores at work."""
    if plan.settings.recipe == HEAD_ONLY and any(cell.run.scores() is None for cell in plan.cells()):
        prepare(
            replace(plan.settings, patience=0), lambda stage, share: tell(stage, 0.0) if tell else None, features=True
        )


def rows_of(plan: Plan) -> list[Row]:
    """Return the rows of the table from the runs that are finished; the first loss is the reference."""
    return [row_of(plan, name) for name in plan.names() if plan.finished_runs(name)]


def row_of(plan: Plan, name: str) -> Row:
    """Return one row; it is compared with the reference over the seeds that both have finished."""
    scores = [run.scores() or {} for run in plan.finished_runs(name).values()]
    figures = {figure: [float(one[figure]) for one in scores if one.get(figure) is not None] for figure in FIGURES}
    beside, differences = (None, []) if name == plan.losses[0] else pair(plan, name, plan.losses[0])
    return Row(name, plan.kind(name), figures, beside, differences, leads_of(plan, name))


def leads_of(plan: Plan, name: str) -> dict[str, Lead]:
    """Return how far a loss is above each floor that has been scored."""
    if plan.kind(name) != "loss" or not plan.floors:
        return {}
    pairs = {floor: pair(plan, name, floor) for floor in plan.floor_names()}
    return {floor: Lead(test, interval(seeds)) for floor, (test, seeds) in pairs.items() if test is not None}


def pair(plan: Plan, name: str, other: str) -> tuple[PairedTest | None, list[float]]:
    """Return one row's Recall@1 less another's, over queries and by seed, over the seeds that both have finished."""
    runs, others = plan.finished_runs(name), plan.finished_runs(other)
    shared = sorted(runs.keys() & others.keys())
    if not shared:
        return None, []
    mine, theirs = (query_values([side[seed] for seed in shared]) for side in (runs, others))
    return paired_test(mine.mean(0), theirs.mean(0)), (mine.nanmean(1) - theirs.nanmean(1)).tolist()


def rounding_noise(rows: Sequence[Row], figure: str = "recall_at_1") -> float | None:
    """Return how far apart two runs of one seed are that differ by rounding alone: the controls, mean over seeds."""
    first, second = ([row for row in rows if row.name == name] for name in CONTROLS)
    if not first or not second or len(first[0].figures[figure]) != len(second[0].figures[figure]):
        return None
    return float(np.mean(np.abs(np.subtract(first[0].figures[figure], second[0].figures[figure]))))


def query_values(runs: Sequence[Run], name: str = "recall_at_1") -> torch.Tensor:
    """Return the value of each query, (seeds, queries)."""
    return torch.stack([values_of(run, name) for run in runs])


def values_of(run: Run, name: str) -> torch.Tensor:
    """Return what each query of a finished run contributed to a figure, or refuse a file that is not as written."""
    run.check(run.queries_file)
    try:
        return load_tensors(run.queries_file)[name]
    except (KeyError, OSError, ValueError) as error:
        raise Mistake(f"{run.queries_file} cannot be read ({first_line(error)}); {run.digests.remedy}.") from None


def as_csv(plan: Plan) -> str:
    """Return a line for each row and seed."""
    columns = ["name", "kind", "seed", *FIGURES, "best_epoch", "epochs", "train_seconds", "selected_on"]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for name in plan.names():
        for seed in plan.all_seeds():
            scores: dict[str, Any] | None = plan.run(name, seed).scores()
            if scores is not None:
                figures = {column: scores.get(column) for column in columns}
                writer.writerow(figures | {"name": name, "kind": plan.kind(name), "seed": seed})
    return text.getvalue()
