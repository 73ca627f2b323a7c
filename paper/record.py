"""What a study found, in one file: how it was made, every run with its figures and its journal.

    {"facts": {...}, "runs": [{...}, ...]}          of trainings, a run a line
    {"facts": {...}, "found": {...}}                of what was measured otherwise

Facts name the scale, the command, the commit and the machine, the settings, and the paired differences, which need the
values of single queries and are therefore computed here. Nothing names a folder of the machine.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from paper.bed import Bed
from shadowmetric.app.compare.compare import FIGURES, rows_of
from shadowmetric.app.compare.plan import Plan
from shadowmetric.app.training.runs.origin import origin
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import as_plain, with_recipe
from shadowmetric.errors import Mistake
from shadowmetric.runtime.files import without_nan, write_text

KEPT = ("epoch", "loss", "recall_at_1", "map_at_r", "silhouette", "effective_rank", "active", "gradient")
KEPT = (*KEPT, "anchor_gradient", "row_length", "mean_cosine", "dead", "batches", "seconds")
FROM_SCORES = (*FIGURES, "best_epoch", "epochs", "train_seconds", "selected_on", "accuracy_voters")
HERE = ("data_root", "weights", "seed", "loss", "workers", "cache_mb")  # settings that say nothing of the study


@dataclass(frozen=True)
class Record:
    """What was found."""

    facts: dict[str, Any]
    runs: list[dict[str, Any]]
    found: dict[str, Any]

    def values(self, loss: str, figure: str) -> dict[int, float]:
        """Return a figure of each seed; those of per cent are fractions."""
        some = [run for run in self.runs if run["name"] == loss and run["figures"].get(figure) is not None]
        return {run["seed"]: float(run["figures"][figure]) for run in some}

    def losses(self, *kinds: str) -> list[str]:
        """Return the names of rows of these kinds, in order."""
        return list(dict.fromkeys(run["name"] for run in self.runs if not kinds or run["kind"] in kinds))

    def kind(self, loss: str) -> str:
        """Return what a row is."""
        return next(run["kind"] for run in self.runs if run["name"] == loss)


def write_record(folder: Path, bed: Bed, plan: Plan, scale: str, command: str) -> None:
    """Write what the finished runs of a plan have found; nothing if there is none.

    A bed may belong to several studies: its record keeps the command that it was first made by. A record that has more
    runs of these settings, or is of another scale, is left as it is.
    """
    runs = [
        run_line(name, plan.kind(name), seed, run)
        for name in plan.names()
        for seed, run in sorted(plan.finished_runs(name).items())
    ]
    if not runs:
        return
    scores = [plan.run(run["name"], run["seed"]).scores() or {} for run in runs]
    run_origins = [one["origin"] for one in scores if "origin" in one] or [origin()]
    origins = [one for place, one in enumerate(run_origins) if one not in run_origins[:place]]
    settings = {name: value for name, value in as_plain(with_recipe(plan.settings)).items() if name not in HERE}
    path = folder / f"{bed.name}.json"
    before = record_at(path)
    same = before is not None and before.facts.get("settings") == settings
    if before is not None and (before.facts["scale"] != scale or (same and len(before.runs) > len(runs))):
        return
    facts = {
        "bed": bed.name,
        "data": bed.data,
        "scale": scale,
        "command": before.facts.get("command", command) if before is not None and same else command,
        "reduced": bed.reductions(scale),
        "origin": origins[0],
        "origins": origins,
        "settings": settings,
        "notes": scores[0].get("notes", []),
        "differences": {
            row.name: {**asdict(row.beside), "by_seed": row.seed_differences}
            for row in rows_of(plan)
            if row.beside is not None
        },
    }
    lines = ",\n".join(json.dumps(without_nan(run)) for run in runs)
    text = f'{{"facts": {json.dumps(without_nan(facts), indent=1)},\n"runs": [\n{lines}\n]}}\n'
    write_text(path, text)


def run_line(name: str, kind: str, seed: int, run: Run) -> dict[str, Any]:
    """Return one run: its figures, and of its journal what curves are drawn from."""
    scores = run.scores() or {}
    figures = {figure: scores.get(figure) for figure in FROM_SCORES}
    collapse = scores.get("collapse") or {}
    figures |= {"mean_variance": collapse.get("mean_variance"), "effective_rank": collapse.get("effective_rank")}
    journal = [{key: line.get(key) for key in KEPT} for line in run.journal()]
    figures |= {key: mean([line[key] for line in journal]) for key in ("anchor_gradient", "row_length", "active")}
    return {"name": name, "kind": kind, "seed": seed, "figures": figures, "journal": round_figures(journal)}


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of what is there."""
    some = [value for value in values if value is not None]
    return float(np.mean(some)) if some else None


def round_figures(journal: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines with six digits a number: curves need no more."""
    return [
        {key: float(f"{value:.6g}") if isinstance(value, float) else value for key, value in line.items()}
        for line in journal
    ]


def write_found(path: Path, figures: dict[str, Any], scale: str, command: str) -> None:
    """Write what was measured otherwise."""
    facts = {"scale": scale, "command": command, "origin": origin()}
    write_text(path, json.dumps(without_nan({"facts": facts, "found": figures}), indent=1) + "\n")


def read_record(path: Path) -> Record:
    """Return a record."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        record = Record(document["facts"], document.get("runs", []), document.get("found", {}))
        if [type(part) for part in (record.facts, record.runs, record.found)] != [dict, list, dict]:
            raise TypeError("its parts are of other kinds")
        return record
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Mistake(f"{path} is no record of a study ({' '.join(str(error).split())}).") from None


def record_at(path: Path) -> Record | None:
    """Return the record of a study at a place; None if there is none, or what is there is no such record."""
    try:
        record = read_record(path)
    except Mistake:
        return None
    return record if "scale" in record.facts else None


def check_scale(folder: Path, names: Sequence[str], scale: str) -> None:
    """Refuse to replace records of another scale."""
    for name in names:
        record = record_at(folder / f"{name}.json")
        if record is not None and record.facts["scale"] != scale:
            there = record.facts["scale"]
            raise Mistake(f"{folder} holds {name} at scale {there}, and --scale is {scale}; name another --records.")
