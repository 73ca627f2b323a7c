"""`shadowmetric compare`: several losses × seeds on one dataset."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from shadowmetric.app.cli.config import CONFIG_HELP
from shadowmetric.app.cli.train import RUNS, data_name
from shadowmetric.app.training.runs.limits import unreachable_margin
from shadowmetric.app.training.runs.settings import OF_ROWS, TrainSettings, check_settings, with_recipe
from shadowmetric.errors import Mistake, Stopped
from shadowmetric.integrations.pml_losses import PREFIX
from shadowmetric.losses.catalogue import LOSSES, PAPER_LOSSES

EXAMPLES = f"""\
{CONFIG_HELP}

Examples:

    shadowmetric compare
    shadowmetric compare --data fashion_mnist --split classes --losses shadow triplet soft_triple --seeds 5
    shadowmetric compare --resume runs/compare-glyphs
"""
Names = Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="", show_default=False)]
Folder = Annotated[Path | None, Parameter(show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CompareSettings:
    """What is compared."""

    losses: Names = PAPER_LOSSES
    """The first is the reference; pml:NAME is a loss of pytorch-metric-learning. Default: the six of the paper's
    tables."""
    controls: bool = True
    """Also train Triplet at twice the margin, and twice Shadow: what lies between the latter and Shadow is noise."""
    floors: bool = True
    """Also score raw pixels and the untrained embedder."""
    seeds: int = 3
    """How many seeds, from --seed on."""
    jobs: Annotated[int | None, Parameter(show_default=False)] = None
    """Trainings at a time. Default: one a core, or one if there is a GPU."""


app = App(name="compare", usage="Usage: shadowmetric compare [OPTIONS]", help_epilogue=EXAMPLES)


@app.default
def compare(
    *,
    settings: Annotated[TrainSettings, Parameter(name="*")] | None = None,
    what: CompareSettings | None = None,
    out: Folder = None,
    resume: Folder = None,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Train several losses with several seeds on equal terms, beside controls and floors, and print one table.

    All options of `train` but --loss and --patience apply to every training.

    Parameters
    ----------
    out
        Folder of all runs and of compare.csv. Default: runs/compare-DATA.
    resume
        Go on with the comparison in this folder: what is finished stays, what was stopped goes on.
    dry_run
        Print the plan, with the time and the memory that are expected, and stop.
    json
        With --dry-run: print the plan as JSON.
    """
    from shadowmetric.app.cli.screen import say, screen
    from shadowmetric.app.cli.tables.compare import print_comparison
    from shadowmetric.app.cli.tables.plan import announce_plan, print_plan
    from shadowmetric.app.compare.compare import compare as run_plan
    from shadowmetric.app.compare.compare import default_jobs
    from shadowmetric.app.compare.forecast import forecast_comparison
    from shadowmetric.app.compare.plan import Plan, read_plan
    from shadowmetric.app.training.preparation import settle
    from shadowmetric.progress import watch

    what = what or CompareSettings()
    if json and not dry_run:
        raise Mistake("--json prints a plan here; give it with --dry-run. Scores of a comparison are in compare.csv.")
    if dry_run and resume is not None:
        raise Mistake("--dry-run plans what is not begun; leave out --resume.")
    if what.jobs is not None and what.jobs < 1:
        raise Mistake(f"--jobs is {what.jobs}; it must be 1 or more.")
    if resume is None:
        settings = settings or TrainSettings()
        folder = out or RUNS / f"compare-{data_name(settings)}"
        if settings.loss != TrainSettings.loss or settings.patience is not None:
            raise Mistake(
                "--loss and --patience have no meaning here: --losses names them, and all get the same epochs."
            )
        if settings.memory_budget is not None:
            raise Mistake("--memory-budget would give each loss its own micro-batch; give all the same --micro-batch.")
        check_losses(what.losses)
        check_settings(settings)
        settings, loud = settle(settings)
        if loud:
            say(screen(), loud, "bold red")
        shared = with_recipe(replace(settings, loss=OF_ROWS))
        plan = Plan(shared, folder, spelt(what.losses), what.controls, what.floors, what.seeds, what.jobs)
        if not dry_run:
            plan.begin()
        for note in unreachable_margin(dict.fromkeys(plan.losses, shared.margin), unit_rows=shared.unit_rows):
            print(note, file=sys.stderr)
        with watch(quiet=0.0) as bar:
            expected = forecast_comparison(plan, what.jobs or default_jobs(plan), bar)
        advice = expected.advice(settings, command_of(what))
        if dry_run:
            print_plan(expected, advice, json)
            return
        announce_plan(expected, advice)
    elif settings is not None or out is not None:
        raise Mistake("--resume takes the settings and the folder of its comparison; give it alone, or with --jobs.")
    else:
        plan = read_plan(resume)
    with watch(quiet=0.0) as bar:
        rows, failures = run_plan(plan, jobs=what.jobs, tell=bar)
    print_comparison(plan, rows, failures)
    if failures:
        raise Stopped(f"{len(failures)} of {len(plan.cells())} trainings failed; go on with `{plan.resume_command()}`.")


def command_of(what: CompareSettings) -> str:
    """Return the command with what is compared, where that is not the default."""
    words = ["shadowmetric compare"]
    if what.losses != PAPER_LOSSES:
        words += ["--losses", *what.losses]
    words += [f"--no-{name}" for name in ("controls", "floors") if not getattr(what, name)]
    words += [f"--{name} {getattr(what, name)}" for name in ("seeds", "jobs") if getattr(what, name) not in (3, None)]
    return " ".join(words)


def check_losses(losses: tuple[str, ...]) -> None:
    """Refuse a loss that there is not, by the option that named it."""
    for name in spelt(losses):
        if "," in name:
            raise Mistake(f"--losses has {name!r}; separate names by spaces.")
        if not name.startswith(PREFIX) and name not in LOSSES:
            raise Mistake(f"--losses has {name!r}; choose from {', '.join(LOSSES)}, or {PREFIX}NAME.")


def spelt(losses: tuple[str, ...]) -> tuple[str, ...]:
    """Return the losses as the catalogue spells them, each once."""
    return tuple(dict.fromkeys(name.replace("-", "_") for name in losses))
