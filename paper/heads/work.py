"""What is missing of a bed is trained, a training at a time; the record grows by a line each."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from paper.heads import beds
from paper.heads.beds import LADDER, LAST_RUNG, MIDDLE, RUNGS, SEEDS, TUNING_SEED, HeadBed, free_settings
from paper.heads.features import Rows, load_rows
from paper.heads.store import Store
from paper.heads.training import ALL, RECALL, Trial, plain_trial, score, train_head
from shadowmetric.app.training.runs.origin import origin
from shadowmetric.progress import Report

MEASURES: dict[str, tuple[str, ...]] = {"protocol": ALL, "free": RECALL, "tuning": ()}  # of the test split


class Bench:
    """The rows of a bed with its record."""

    def __init__(self, bed: HeadBed, rows: Rows, records: Path, command: str):
        self.bed, self.rows, self.reduced = bed, rows, rows.reduced()
        images = {name: len(labels) for name, labels in rows.labels.items()}
        facts = {"bed": bed.name, "data": bed.data, "size": bed.size, "most_per_class": bed.most, "images": images}
        facts |= {"held": len(rows.held), "unseen": rows.unseen, "command": command, "origin": origin()}
        self.store = Store(records / f"{bed.name}.jsonl", facts)

    def run(self, group: str, name: str, trial: Trial, seed: int) -> float:
        """Train what is missing; return what it reached on the images that settings are chosen on."""
        plain = plain_trial(trial)
        line = self.store.get(group, plain, seed)
        if line is None:
            kind = "control" if trial.loss in ("triplet_control", "double_shadow") else "loss"
            line = {"group": group, "name": name, "kind": kind, "seed": seed, "trial": plain}
            line |= train_head(trial, seed, self.rows, self.reduced, MEASURES[group])
            line = self.store.add(line)
        return line["figures"]["validation"]

    def floors(self) -> None:
        """Score the pooled features as they are, and the rows, which is what an untrained head has."""
        for name, rows in (("features", self.rows.features), ("untrained", self.reduced)):
            if self.store.get("protocol", {"rows": name}, 0) is None:
                figures = score(rows, self.rows, ALL)
                line = {"group": "protocol", "name": name, "kind": "floor", "seed": 0, "trial": {"rows": name}}
                self.store.add(line | {"figures": figures, "curve": [], "seconds": 0.0})


def protocol(bench: Bench) -> Iterator[str]:
    """Train the paper's protocol, seed by seed."""
    bench.floors()
    for seed in range(SEEDS):
        for name, trial in beds.protocol(bench.bed, seed).items():
            bench.run("protocol", name, trial, seed)
        yield f"{bench.bed.name} protocol {seed}"


def free(bench: Bench) -> Iterator[str]:
    """Search margins and train ten seeds with the best, setting by setting."""
    settings = free_settings()
    plain = [name for name, trial in settings.items() if trial.mining == "own" and not trial.length_penalty]
    for names in (plain, [name for name in settings if name not in plain]):  # what says most comes first
        tuned = {}
        for name in names:
            tuned[name] = replace(settings[name], margin=search_margin(bench, name, settings[name]))
            yield f"{bench.bed.name} margin of {name}: {tuned[name].margin:g}"
        for seed in range(SEEDS):
            for name, trial in tuned.items():
                bench.run("free", name, trial, seed)
            yield f"{bench.bed.name} free {seed}"


def search_margin(bench: Bench, name: str, trial: Trial) -> float:
    """Return the best margin of a seed that is not scored, on a ladder that grows while its best rung is at an end."""
    reached: dict[int, float] = {}
    wanted, best = set(RUNGS), 0
    while wanted:
        for rung in sorted(wanted):
            margin = margin_at(trial, rung)
            reached[rung] = bench.run("tuning", name, replace(trial, margin=margin), TUNING_SEED)
        best = max(reached, key=lambda rung: reached[rung])
        wanted = {rung for rung in (best - 1, best + 1) if rung not in reached and abs(rung) <= LAST_RUNG}
    return margin_at(trial, best)


def margin_at(trial: Trial, rung: int) -> float:
    """Return the margin of a rung, with two digits."""
    return float(f"{MIDDLE[trial.loss] * LADDER**rung:.2g}")


WORK = {"protocol": protocol, "free": free}


def open_bench(
    bed: HeadBed, records: Path, features: Path, data_root: Path | None, weights: str | None, command: str, tell: Report
) -> Bench:
    """Return a bed with its rows."""
    return Bench(bed, load_rows(bed.data, bed.size, features, data_root, weights, bed.most, tell), records, command)
