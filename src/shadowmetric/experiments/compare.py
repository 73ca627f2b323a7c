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
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from shadowmetric.evaluation import PairedTest, paired_test
from shadowmetric.experiments.cells import Tell, cores, run_cells
from shadowmetric.experiments.floors import FLOORS, raw_pixels, untrained
from shadowmetric.experiments.plan import Plan
from shadowmetric.losses.catalogue import CONTROLS
from shadowmetric.mistakes import Interrupted
from shadowmetric.training.ending import write_queries
from shadowmetric.training.files import write_text
from shadowmetric.training.preparation import prepare
from shadowmetric.training.run import Run

FIGURES = ("recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "map_at_r", "r_precision", "silhouette")
FIGURES = (*FIGURES, "accuracy", "macro_f1", "nmi", "convergence_epoch")


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
    try:
        if plan.floors:
            run_floors(plan, tell)
        run_cells(plan.cells(), jobs or default_jobs(plan), tell)
    except Interrupted:
        raise Interrupted(plan.resume_command()) from None
    write_text(plan.out / "compare.csv", as_csv(plan))
    return rows_of(plan)


def default_jobs(plan: Plan) -> int:
    """Return one training a core, or one at a time on a GPU."""
    return 1 if torch.cuda.is_available() and plan.settings.device != "cpu" else cores()


def run_floors(plan: Plan, tell: Tell | None) -> None:
    """Score what needs no training."""
    for seed in plan.all_seeds():
        missing = [plan.run(name, seed) for name in FLOORS if plan.run(name, seed).scores() is None]
        if missing:
            parts = prepare(replace(plan.settings, seed=seed, patience=0))
            for run in missing:
                if tell is not None:
                    tell(0.0, run.folder.name)
                scores, figures = raw_pixels(parts) if run.folder.name.startswith(FLOORS[0]) else untrained(parts)
                write_queries(run, scores)
                run.write_scores(figures | {"selected_on": "nothing: not trained", "notes": list(parts.notes)})


def rows_of(plan: Plan) -> list[Row]:
    """Return the rows of the table from the runs that are finished; the first loss is the reference."""
    reference = plan.finished(plan.losses[0])
    return [row_of(plan, name, reference) for name in plan.names() if plan.finished(name)]


def row_of(plan: Plan, name: str, reference: Sequence[Run]) -> Row:
    """Return one row."""
    runs = plan.finished(name)
    scores = [run.scores() or {} for run in runs]
    figures = {figure: [float(one[figure]) for one in scores if one.get(figure) is not None] for figure in FIGURES}
    kind = plan.kind(name)
    if name == plan.losses[0] or len(runs) != len(reference):
        return Row(name, kind, figures, None, [])
    mine, theirs = query_values(runs), query_values(reference)
    differences = (mine.nanmean(1) - theirs.nanmean(1)).tolist()
    return Row(name, kind, figures, paired_test(mine.mean(0), theirs.mean(0)), differences)


def seed_noise(rows: Sequence[Row], figure: str = "recall_at_1") -> float | None:
    """Return how far the two controls, which are one loss, are apart in the mean over seeds."""
    first, second = ([row for row in rows if row.name == name] for name in CONTROLS)
    if not first or not second or len(first[0].figures[figure]) != len(second[0].figures[figure]):
        return None
    return float(np.mean(np.abs(np.subtract(first[0].figures[figure], second[0].figures[figure]))))


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
        for seed in plan.all_seeds():
            scores: dict[str, Any] | None = plan.run(name, seed).scores()
            if scores is not None:
                found = {column: scores.get(column) for column in columns}
                writer.writerow(found | {"name": name, "kind": plan.kind(name), "seed": seed})
    return text.getvalue()
