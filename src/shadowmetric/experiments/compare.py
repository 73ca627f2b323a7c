"""Losses × seeds on one dataset and budget, on equal terms.

For one seed every loss starts from the same weights, sees the same batches in the same order with the same random
changes, and is judged on the same validation part. Beside the methods stand

    controls    triplet_control and double_shadow (see losses/catalogue): equal by algebra, so that what lies between
                them is the noise of rounding, grown over the steps
    floors      raw_pixels and untrained: no training at all

A difference is judged twice. Over queries: values of each query, averaged over seeds, paired with the reference's.
Over seeds: the differences of the seeds themselves, which differ by more than queries do; with three seeds that is
a hint and no proof.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from shadowmetric.evaluation import PairedTest, paired_test
from shadowmetric.experiments.cells import Cell, Tell, cores, run_cells
from shadowmetric.experiments.floors import FLOORS, raw_pixels, untrained
from shadowmetric.losses.catalogue import CONTROLS, PAPER_LOSSES
from shadowmetric.training.ending import write_queries
from shadowmetric.training.files import write_text
from shadowmetric.training.preparation import prepare
from shadowmetric.training.run import Run
from shadowmetric.training.settings import TrainSettings, check_settings

FIGURES = ("recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "map_at_r", "r_precision", "silhouette")
FIGURES = (*FIGURES, "accuracy", "macro_f1", "nmi", "convergence_epoch")


@dataclass(frozen=True)
class Plan:
    """What is compared: losses, each with every seed, and the settings that they share."""

    settings: TrainSettings
    out: Path
    losses: tuple[str, ...] = PAPER_LOSSES
    controls: bool = True
    floors: bool = True
    seeds: int = 3

    def methods(self) -> tuple[str, ...]:
        """Return everything that is trained, each once."""
        return tuple(dict.fromkeys((*self.losses, *(CONTROLS if self.controls else ()))))

    def names(self) -> tuple[str, ...]:
        """Return every row of the table."""
        return (*self.methods(), *(FLOORS if self.floors else ()))

    def cells(self) -> list[Cell]:
        """Return the trainings, seed by seed, so that a plan that is stopped has whole seeds."""
        shared = replace(self.settings, patience=0)  # one budget for all
        return [
            Cell(self.folder(loss, seed), replace(shared, loss=loss, seed=seed))
            for seed in range(self.settings.seed, self.settings.seed + self.seeds)
            for loss in self.methods()
        ]

    def folder(self, name: str, seed: int) -> Path:
        """Return where a row's run of a seed is."""
        return self.out / f"{name}-{seed}"

    def runs(self, name: str) -> list[Run]:
        """Return the finished runs of a row, by seed."""
        seeds = range(self.settings.seed, self.settings.seed + self.seeds)
        found = [Run(self.folder(name, seed)) for seed in seeds]
        return [run for run in found if run.scores() is not None]


@dataclass(frozen=True)
class Row:
    """What one method reached over its seeds."""

    name: str
    kind: str  # "loss", "control" or "floor"
    figures: dict[str, list[float]]  # by name, one a seed
    beside: PairedTest | None  # Recall@1 less the reference's, over queries
    seed_differences: list[float]  # Recall@1 less the reference's, one a seed

    def mean(self, figure: str) -> float | None:
        """Return the mean over seeds."""
        values = self.figures.get(figure, [])
        return float(np.mean(values)) if values else None

    def spread(self, figure: str) -> float | None:
        """Return the standard deviation over seeds; None for fewer than two."""
        values = self.figures.get(figure, [])
        return float(np.std(values, ddof=1)) if len(values) > 1 else None


def compare(plan: Plan, *, jobs: int | None = None, tell: Tell | None = None) -> list[Row]:
    """Run what is missing of the plan, write compare.csv, and return the rows of the table."""
    for cell in plan.cells():
        check_settings(cell.settings)
    if plan.floors:
        run_floors(plan)
    run_cells(plan.cells(), jobs or cores(), tell)
    write_text(plan.out / "compare.csv", as_csv(plan))
    return rows_of(plan)


def run_floors(plan: Plan) -> None:
    """Score what needs no training."""
    for seed in range(plan.settings.seed, plan.settings.seed + plan.seeds):
        missing = [name for name in FLOORS if Run(plan.folder(name, seed)).scores() is None]
        if not missing:
            continue
        parts = prepare(replace(plan.settings, seed=seed, patience=0))
        for name in missing:
            run = Run(plan.folder(name, seed))
            scores, figures = raw_pixels(parts) if name == "raw_pixels" else untrained(parts)
            write_queries(run, scores)
            run.write_scores(figures | {"selected_on": "nothing: not trained", "notes": list(parts.notes)})


def rows_of(plan: Plan) -> list[Row]:
    """Return the rows of the table from the runs that are finished; the first loss is the reference."""
    reference = plan.runs(plan.losses[0])
    return [row_of(plan, name, reference) for name in plan.names() if plan.runs(name)]


def row_of(plan: Plan, name: str, reference: Sequence[Run]) -> Row:
    """Return one row."""
    runs = plan.runs(name)
    scores = [run.scores() or {} for run in runs]
    figures = {figure: [float(one[figure]) for one in scores if one.get(figure) is not None] for figure in FIGURES}
    kind = "floor" if name in FLOORS else "control" if name in CONTROLS else "loss"
    if name == plan.losses[0] or len(runs) != len(reference):
        return Row(name, kind, figures, None, [])
    mine, theirs = query_values(runs), query_values(reference)
    differences = (mine.nanmean(1) - theirs.nanmean(1)).tolist()
    return Row(name, kind, figures, paired_test(mine.mean(0), theirs.mean(0)), differences)


def query_values(runs: Sequence[Run], name: str = "recall_at_1") -> torch.Tensor:
    """Return the value of each query, (seeds, queries)."""
    return torch.stack([load_file(run.queries_file)[name] for run in runs])


def as_csv(plan: Plan) -> str:
    """Return a line for each row and seed."""
    columns = ["name", "kind", "seed", *FIGURES, "best_epoch", "epochs", "train_seconds", "selected_on"]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for name in plan.names():
        kind = "floor" if name in FLOORS else "control" if name in CONTROLS else "loss"
        for seed in range(plan.settings.seed, plan.settings.seed + plan.seeds):
            scores: dict[str, Any] | None = Run(plan.folder(name, seed)).scores()
            if scores is not None:
                found = {column: scores.get(column) for column in columns}
                writer.writerow(found | {"name": name, "kind": kind, "seed": seed})
    return text.getvalue()
