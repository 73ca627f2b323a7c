"""The rounds: which settings on which beds, what of a file is done, and the rest, a cell after the other.

A cell is a row of the CSV, written when it is finished; a second call goes on with what is missing. Cells are ordered
by seed, then bed, so that a round that is stopped early has whole seeds.

Memory: the images of all beds of a round. Time: cells × seconds, and about a tenth of that to judge.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from benchmarks.from_scratch.beds import BEDS, Ground, JudgedOn, read_bed
from benchmarks.from_scratch.trial import Contender, Setting, judge, judge_floor, seconds_of_step, train
from benchmarks.run import place
from shadowmetric.app.training.runs.recipes import COMPARING
from shadowmetric.losses.catalogue import CLASS_LOSSES
from shadowmetric.runtime.files import read_rows

RoundName = Literal["losses", "networks", "augmentation", "rates", "final"]
FLOORS = ("raw_pixels", "untrained")
PHOTOS, ALL = ("cifar10", "cub200"), tuple(BEDS)


@dataclass(frozen=True)
class Cell:
    """A contender on a bed with a seed."""

    round: str
    bed: str
    judged_on: JudgedOn
    contender: Contender
    seed: int
    seconds: float
    setting: Setting

    def row(self) -> dict[str, Any]:
        """Return what tells it from others, as the columns of a file."""
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "setting"}
        return own | asdict(self.setting)

    def key(self) -> tuple[str, ...]:
        """Return the same as text; the round it was asked for in does not matter."""
        return tuple(str(value) for name, value in self.row().items() if name != "round")


@dataclass(frozen=True)
class Round:
    """Settings that are compared, and on what."""

    settings: tuple[tuple[Contender, Setting], ...]
    beds: tuple[str, ...]
    judged_on: JudgedOn = "validation"

    def cells(self, name: str, seeds: int, seconds: float, beds: Sequence[str] = ()) -> list[Cell]:
        """Return its cells."""
        return [
            Cell(name, bed, self.judged_on, contender, seed, seconds, setting)
            for seed in range(seeds)
            for bed in beds or self.beds
            for contender, setting in self.settings
        ]


def changed(**changes: Sequence[Any]) -> tuple[tuple[Contender, Setting], ...]:
    """Return the default, and it with each value of one setting."""
    settings = [Setting(), *(Setting(**{name: value}) for name, values in changes.items() for value in values)]
    settings = [
        one if one.loss in CLASS_LOSSES else replace(one, batch=COMPARING.batch, per_class=COMPARING.per_class)
        for one in settings
    ]
    return tuple(("ours", setting) for setting in dict.fromkeys(settings))


ROUNDS: dict[str, Round] = {
    "losses": Round(
        changed(loss=("shadow", "triplet", "multi_similarity", "soft_triple", "arc_face", "n_pair", "contrastive")),
        PHOTOS,
    ),
    "networks": Round(changed(network=("strided", "late pool", "group norm", "no norm", "wide")), PHOTOS),
    "augmentation": Round(
        changed(augment=("none", "shift", "crop", "photo", "strong", "drawing")), (*PHOTOS, "glyphs")
    ),
    "rates": Round(
        changed(learning_rate=(2e-3, 1e-2), weight_decay=(1e-2,), batch=(64, 128), per_class=(2, 4, 8)), ALL
    ),
    "final": Round(
        (("ours", Setting()), *((name, Setting()) for name in get_args(Contender) if name != "ours")), ALL, "test"
    ),
}


def run_cells(cells: Sequence[Cell], out: Path, data_root: Path | None) -> Iterator[dict[str, Any]]:
    """Yield the row of each cell that the file lacks, when it is written."""
    known = read_known(out)
    missing = [cell for cell in cells if cell.key() not in known]
    grounds: dict[tuple[str, JudgedOn], Ground] = {}
    steps: dict[Any, int] = {}
    for cell in missing:
        where = (cell.bed, cell.judged_on)
        if where not in grounds:
            grounds[where] = read_bed(BEDS[cell.bed], data_root, cell.judged_on)
            timed = timed_on(cell.bed, missing)
            costs = seconds_of_step(timed, grounds[where])
            steps |= {(cell.bed, *one): round(cell.seconds / cost) for one, cost in zip(timed, costs, strict=True)}
        row = (
            cell.row()
            | run_cell(cell, grounds[where], steps.get((cell.bed, cell.contender, cell.setting), 0))
            | place()
        )
        append(out, row)
        yield row


def timed_on(bed: str, cells: Sequence[Cell]) -> list[tuple[Contender, Setting]]:
    """Return who is trained on a bed, each once."""
    trained = [cell for cell in cells if cell.bed == bed and cell.contender not in FLOORS]
    return list(dict.fromkeys((cell.contender, cell.setting) for cell in trained))


def run_cell(cell: Cell, ground: Ground, steps: int) -> dict[str, Any]:
    """Train and judge one contender."""
    if cell.contender in FLOORS:
        return {"steps": 0} | judge_floor(cell.contender, ground, cell.setting, cell.seed)
    network = train(cell.contender, ground, cell.setting, steps, cell.seed, lambda: None)
    return {"steps": steps} | judge(network, ground)


def read_known(out: Path) -> set[tuple[str, ...]]:
    """Return the keys of the rows that a file has."""
    names = [field.name for field in fields(Cell) if field.name not in ("round", "setting")]
    names += [field.name for field in fields(Setting)]
    return {tuple(row[name] for name in names) for row in read_rows(out)} if out.exists() else set()


def append(out: Path, row: dict[str, Any]) -> None:
    """Write a row at the end of the file, below a heading if it is the first."""
    new = not out.exists()
    with out.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)
