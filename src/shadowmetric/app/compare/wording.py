"""What a comparison says in words: a row's figures with their spread, and the sentences that follow from them.

The terminal and the page say the same.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from shadowmetric.app.compare.compare import Row, rounding_noise
from shadowmetric.app.compare.plan import Plan
from shadowmetric.app.compare.success import about_training
from shadowmetric.app.training.runs.headline import NEAREST
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import with_recipe

COLUMNS = {
    NEAREST: "nearest in training",
    "recall_at_1": "Recall@1",
    "map_at_r": "MAP@R",
    "silhouette": "silhouette",
    "accuracy": "accuracy",
    "convergence_epoch": "plateau",
}


def columns_of(rows: Sequence[Row]) -> dict[str, str]:
    """Return the columns that there are figures for; the first is the one that fits the data's split."""
    known = any(row.figures.get(NEAREST) for row in rows)
    return {name: title for name, title in COLUMNS.items() if known or name != NEAREST}


def figure(row: Row, name: str) -> str:
    """Return a mean with its spread: shares in per cent, silhouette and epochs as they are."""
    mean, spread = row.mean(name), row.spread(name)
    if mean is None:
        return "–"
    scale, digits = {"convergence_epoch": (1, 1), "silhouette": (1, 3)}.get(name, (100, 2))
    around = "" if not spread or name == "silhouette" else f" ± {scale * spread:.{digits}f}"
    return f"{scale * mean:.{digits}f}{around}"


def difference(row: Row) -> str:
    """Return the difference from the reference with its interval over queries, in points."""
    if row.beside is None:
        return "–"
    interval = row.beside
    return f"{100 * interval.difference:+.2f} ({100 * interval.low:+.2f} to {100 * interval.high:+.2f})"


def by_seed(row: Row) -> str:
    """Return the mean and the spread of the seeds' own differences, in points."""
    if len(row.seed_differences) < 2:
        return "–"
    return f"± {100 * statistics.stdev(row.seed_differences):.2f}"


def sentences(plan: Plan, rows: list[Row]) -> list[str]:
    """Return how the table is read, and what it says in words."""
    return [
        *filter(None, [about_training(rows, describe_test(plan))]),
        "Above the first line: losses. Then controls, which are Triplet under other names; then floors, not trained.",
        "Differences: mean over queries and seeds, with the interval over queries; then their spread over seeds.",
        *findings(plan, rows),
    ]


def describe_test(plan: Plan) -> str:
    """Say what a comparison's figures were measured on; nothing before something is finished."""
    return next((about_test(run.scores()) for name in plan.names() for run in plan.finished_runs(name).values()), "")


def about_test(scores: Mapping[str, Any] | None) -> str:
    """Say on which images scores were measured, if they tell."""
    setting = (scores or {}).get("setting")
    if not setting:
        return ""
    unseen = " that training never saw" if (scores or {}).get("unseen_classes") else ""
    return f"{setting['queries']:,} test images of {setting['classes']:,} classes{unseen}"


def findings(plan: Plan, rows: list[Row]) -> list[str]:
    """Return what the table says in words."""
    by_name = {row.name: row for row in rows}
    remarks = [*about_controls(rows), *about_noise(plan)]
    for floor in [row for row in rows if row.kind == "floor"]:
        for measure, word in (("recall_at_1", "Recall@1"), ("map_at_r", "MAP@R")):
            below = [row.name for row in rows if row.kind == "loss" and not above(row, floor, measure)]
            if below:
                remarks.append(f"Not above {floor.name} in {word}: {', '.join(below)}.")
    if any(run.settings().select_on == "test" for name in plan.methods() for run in plan.finished_runs(name).values()):
        remarks.append("Epochs were CHOSEN ON THE TEST SPLIT: these figures are too good.")
    missing = [name for name in plan.names() if name not in by_name or len(plan.finished_runs(name)) < plan.seeds]
    if missing:
        remarks.append(f"Not finished: {', '.join(missing)}.")
    runs = [run for name in plan.methods() for run in plan.finished_runs(name).values()]
    remarks += about_warnings(runs)
    remarks += (runs[0].scores() or {})["notes"] if runs else []
    return remarks


def about_warnings(runs: list[Run]) -> list[str]:
    """Return how many runs had which warning, and one of them."""
    troubled: dict[str, list[Run]] = {}
    for run in runs:
        warnings = {warning.partition(" (")[0] for line in run.journal() for warning in line["warnings"]}
        for warning in warnings:
            troubled.setdefault(warning, []).append(run)
    return [
        f"{len(those)} of {len(runs)} runs, {those[0].folder.name} for one, had the warning: {warning}."
        for warning, those in sorted(troubled.items())
    ]


def about_controls(rows: list[Row]) -> list[str]:
    """Return how far the two controls are apart, if both are there."""
    apart = rounding_noise(rows)
    if apart is None:
        return []
    same = "triplet_control and double_shadow are the same loss by algebra"
    if apart == 0:
        return [f"{same}, and have the same Recall@1 in every seed: they say nothing about noise."]
    return [f"{same}: a run of one differs from a run of the other by {100 * apart:.2f} points on average."]


def about_noise(plan: Plan) -> list[str]:
    """Return how far a factor of the loss, which Adam ignores, moves a run: that is noise."""
    differences = seed_differences(plan, "shadow", "double_shadow")
    if not differences:
        return []
    largest = f"up to {100 * max(map(abs, differences)):.2f} points of Recall@1 (seeds: {len(differences)})"
    matters = factor_matters(plan)
    if matters:
        return [f"double_shadow is shadow times 2, and {matters}: they differ by {largest}, which is not noise alone."]
    if not any(differences):
        return ["double_shadow is shadow times 2, which Adam ignores but for rounding: here they agree."]
    return [
        "double_shadow is shadow times 2, which Adam ignores but for its epsilon and rounding. Still a run of one "
        f"differs from a run of the other by {largest}: that is noise of training. Smaller differences between losses "
        "mean nothing."
    ]


def seed_differences(plan: Plan, first: str, second: str) -> list[float]:
    """Return second's Recall@1 less first's, for each seed that both have finished."""
    before, after = (
        {seed: (run.scores() or {})["recall_at_1"] for seed, run in plan.finished_runs(name).items()}
        for name in (first, second)
    )
    return [after[seed] - before[seed] for seed in before if seed in after]


def factor_matters(plan: Plan) -> str:
    """Return why the optimizer does not ignore a factor of the loss; nothing if it does."""
    settings = with_recipe(plan.settings)
    if settings.optimizer == "sgd":
        return "sgd takes twice the step"
    if settings.optimizer == "adam" and settings.weight_decay:
        return "adam adds weight decay to the gradient, where it then weighs half as much"
    return ""


def above(row: Row, floor: Row, measure: str) -> bool:
    """Return whether a row's mean is above a floor's."""
    mine, theirs = row.mean(measure), floor.mean(measure)
    return mine is not None and theirs is not None and mine > theirs
