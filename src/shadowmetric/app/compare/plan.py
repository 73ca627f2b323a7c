"""What a comparison trains: losses × seeds, and the settings that they share. Its record is compare.yaml.

Machines that see one folder may go on with one plan: where each has its data and its file of weights, and how it reads
them, is no part of what a plan trains.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock

from shadowmetric.app.compare.cells import Cell, ensure_folder
from shadowmetric.app.compare.floors import FLOORS, floors_of
from shadowmetric.app.training.runs.run import Run, shell_quote
from shadowmetric.app.training.runs.settings import (
    OF_ROWS,
    TrainSettings,
    as_plain,
    check_settings,
    from_plain,
    with_recipe,
)
from shadowmetric.app.training.runs.yaml_text import parse_yaml
from shadowmetric.errors import Mistake
from shadowmetric.integrations.pml_losses import PREFIX
from shadowmetric.losses.catalogue import CONTROLS, LOSSES, PAPER_LOSSES
from shadowmetric.runtime.digests import Digests

FILE = "compare.yaml"
PLACES = ("data_root", "cache_mb", "workers", "save_every")  # settings of a machine, not of a training


@dataclass(frozen=True)
class Plan:
    """Losses × seeds in a folder."""

    settings: TrainSettings
    out: Path
    losses: tuple[str, ...] = PAPER_LOSSES
    controls: bool = True
    floors: bool = True
    seeds: int = 3
    jobs: int | None = None  # trainings at a time
    bed: str = ""  # its name, if it is one of several plans of a study

    def methods(self) -> tuple[str, ...]:
        """Return everything that is trained, each once."""
        return tuple(dict.fromkeys((*self.losses, *(CONTROLS if self.controls else ()))))

    def names(self) -> tuple[str, ...]:
        """Return every row of the table."""
        return (*self.methods(), *self.floor_names())

    def floor_names(self) -> tuple[str, ...]:
        """Return what is scored without training."""
        return floors_of(self.settings) if self.floors else ()

    def kind(self, name: str) -> str:
        """Return what a row is."""
        return "floor" if name in FLOORS else "control" if name in CONTROLS else "loss"

    def all_seeds(self) -> range:
        """Return the seeds."""
        return range(self.settings.seed, self.settings.seed + self.seeds)

    def cells(self) -> list[Cell]:
        """Return the trainings, seed by seed, so that a plan that was stopped has whole seeds."""
        pairs = with_recipe(replace(self.settings, loss=OF_ROWS))  # batches in which every anchor has a positive
        batch = None if self.settings.logical_batch else pairs.batch
        shared = replace(self.settings, patience=0, batch=batch, per_class=pairs.per_class)  # one budget for all
        return [
            Cell(self.run(loss, seed).folder, replace(shared, loss=loss, seed=seed), self.bed)
            for seed in self.all_seeds()
            for loss in self.methods()
        ]

    def run(self, name: str, seed: int) -> Run:
        """Return a row's run of a seed."""
        return Run(self.out / f"{name.replace(':', '-')}-{seed}")

    def finished_runs(self, name: str) -> dict[int, Run]:
        """Return the finished runs of a row, by seed."""
        runs = {seed: self.run(name, seed) for seed in self.all_seeds()}
        return {seed: run for seed, run in runs.items() if run.scores() is not None}

    def resume_command(self) -> str:
        """Return what goes on with it."""
        return f"shadowmetric compare --resume {shell_quote(self.out)}"

    def begin_or_go_on(self) -> "Plan":
        """Begin, or check that the folder holds this very plan; return it, with the weights that the folder began with.

        Published weights are asked for where no file is named: a folder that began with a file goes on with that file.
        """
        with FileLock(ensure_folder(self.out) / ".plan.lock"):  # another process may be about to begin
            if not (self.out / FILE).exists():
                self.begin()
        plan = read_plan(self.out)
        here, there = self.choices(), plan.choices()
        began_with_file = here["weights"] == "pretrained" and there["weights"] not in ("none", "pretrained")
        here |= {"weights": there["weights"]} if began_with_file else {}
        differing = [f"{name} {there[name]} there and {here[name]} here" for name in here if here[name] != there[name]]
        if differing:
            raise Mistake(
                f"{self.out} holds trainings with other settings ({'; '.join(differing)}); name another --out, or "
                "remove that folder."
            )
        if not began_with_file:
            return self
        return replace(self, settings=replace(self.settings, weights=plan.settings.weights))

    def choices(self) -> dict[str, Any]:
        """Return all that decides what is trained, whatever the machine; of a file of weights its name."""
        settings = as_plain(with_recipe(self.settings))
        settings = {name: value for name, value in settings.items() if name not in PLACES}
        settings["weights"] = Path(settings["weights"] or "none").name
        names = ("losses", "controls", "floors", "seeds")
        return {name: getattr(self, name) for name in names} | settings

    def check(self) -> None:
        """Refuse what cannot be compared."""
        if self.seeds < 1:
            raise Mistake(f"--seeds is {self.seeds}; it must be 1 or more.")
        if not self.losses:
            raise Mistake("--losses names none; name at least one, such as shadow.")
        for cell in self.cells():
            check_settings(cell.settings)

    def begin(self) -> None:
        """Check the plan and write it into its folder; refuse a folder that holds one."""
        self.check()
        if (self.out / FILE).exists():
            raise Mistake(
                f"{self.out} holds a comparison already; go on with it by `{self.resume_command()}`, "
                "or name another --out."
            )
        document = {name: getattr(self, name) for name in ("controls", "floors", "seeds", "jobs")}
        document |= {"losses": list(self.losses)}
        text = yaml.safe_dump(document | {"settings": as_plain(self.settings)}, sort_keys=False, allow_unicode=True)
        ensure_folder(self.out)
        digests_of(self.out).write(self.out / FILE, lambda place: place.write_text(text, encoding="utf-8"))


def read_plan(out: Path) -> Plan:
    """Return the plan of a folder."""
    file = out / FILE
    try:
        document = parse_yaml(digests_of(out).read(file))
        settings = from_plain(document.pop("settings"), file)
        choices: dict[str, Any] = document | {"losses": tuple(document["losses"])}
        plan = Plan(settings=settings, out=out, **choices)
        for name, kinds in {"controls": bool, "floors": bool, "seeds": int, "jobs": int | None}.items():
            if not isinstance(getattr(plan, name), kinds):
                raise ValueError(f"{name} is {getattr(plan, name)!r}")
        if not plan.losses or not all(name in LOSSES or str(name).startswith(PREFIX) for name in plan.losses):
            raise ValueError(f"losses are {plan.losses!r}")
        return plan
    except (FileNotFoundError, NotADirectoryError):
        raise Mistake(f"{out} holds no comparison: there is no {FILE} in it.") from None
    except Mistake:
        raise
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise Mistake(f"{file} is no plan of a comparison ({' '.join(str(error).split())}).") from None


def digests_of(out: Path) -> Digests:
    """Return the digests of a comparison's own files."""
    return Digests(out, "bring back a copy of it, or name another --out")
