"""`python -m paper`: the paper's tables, figures and ablations, done again."""

import importlib.util
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from shadowmetric.app import cli
from shadowmetric.app.cli.config import CONFIG_HELP, config_reader
from shadowmetric.app.cli.train import RUNS
from shadowmetric.errors import Interrupted, Mistake, Stopped

EXAMPLES = f"""\
{CONFIG_HELP}

Names: fine-grained large-scale standard medical memory architectures collapse gradients geometry tsne, and
differences: the four ways in which Shadow can differ from Triplet.

Examples:

    python -m paper memory
    python -m paper standard --scale small --data-root data
    python -m paper fine-grained --only cub200 --weights tf_efficientnet_lite0.safetensors
    python -m paper standard --scale paper --jobs 1
    python -m paper report runs/reproduce-small

The same command goes on where it was stopped, and may run on several machines that see one --out.
"""
Names = Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="", show_default=False)]
CheckedBatch = Annotated[Path | None, Parameter(show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReproduceSettings:
    """What is done, and where."""

    scale: str = "small"
    """paper: the published protocol, for a GPU and the full data. small: two cores. smoke: seconds, on digits."""
    only: Names = ()
    """Datasets or settings of the study, instead of all."""
    data_root: CheckedBatch = None
    """Where datasets lie. Default: $SHADOWMETRIC_DATA, else ./data."""
    weights: Annotated[str | None, Parameter(show_default=False)] = None
    """A file of weights instead of published ones, which would be downloaded."""
    out: CheckedBatch = None
    """Folder of all trainings; studies share those that are the same. Default: runs/reproduce-SCALE."""
    records: CheckedBatch = None
    """Folder of the results that tables are made from. Default: records below --out."""
    jobs: Annotated[int | None, Parameter(show_default=False)] = None
    """Trainings at a time. Default: one a core, or one if there is a GPU."""


def main(tokens: Sequence[str] | None = None) -> None:
    """Do a study with these words, or those of the command line."""
    cli.main(tokens, command_line)


def command_line(config: Path | None = None, *, first_help: bool = False) -> App:
    """Return the cyclopts application; config is a file of options."""
    app = App(
        name="python -m paper",
        usage="Usage: python -m paper NAME [OPTIONS]",
        help_epilogue=EXAMPLES,
        suppress_keyboard_interrupt=False,
        config=[] if config is None else [config_reader(config)],
    )
    app.default(reproduce)
    app.command(report)
    return app


def reproduce(name: str, /, *, what: ReproduceSettings | None = None) -> None:
    """Do a table, figure or ablation of the paper again, and print ours beside the paper's.

    Only what is missing is trained or measured. Ctrl-C saves; the same command goes on.

    Parameters
    ----------
    name
        Which; the names are below.
    """
    from paper.bed import SCALES, Where
    from paper.catalogue import STUDIES
    from paper.screen import print_study
    from paper.study import run_study
    from shadowmetric.progress import watch

    what = what or ReproduceSettings()
    if name not in STUDIES:
        raise Mistake(f"there is no study {name!r}; choose one of {', '.join(STUDIES)}.")
    if what.scale not in SCALES:
        raise Mistake(f"--scale is {what.scale!r}; choose one of {', '.join(SCALES)}.")
    if what.jobs is not None and what.jobs < 1:
        raise Mistake(f"--jobs is {what.jobs}; it must be 1 or more.")
    study = STUDIES[name]
    unknown = [one for one in what.only if one not in [bed.name for bed in study.beds]]
    if unknown:
        known = ", ".join(bed.name for bed in study.beds) or "none: it has no parts"
        raise Mistake(f"--only names {unknown[0]!r}; {name} has {known}.")
    missing = [one for one in study.needs if importlib.util.find_spec(one) is None]
    if missing:
        raise Mistake(f"{', '.join(missing)} is not installed; run `pip install 'shadowmetric[report]'`.")
    where = Where(what.scale, what.out or RUNS / f"reproduce-{what.scale}", what.data_root, what.weights, what.jobs)
    records = what.records or where.out / "records"
    try:
        with watch(quiet=0.0) as bar:
            failures = run_study(
                study,
                where,
                command(name, what),
                bar,
                only=what.only,
                records=records,
            )
    except Interrupted:
        raise Interrupted(command(name, what, places=True)) from None
    print_study(study, records, failures)
    if failures:
        raise Stopped(f"{len(failures)} part(s) failed: {', '.join(failures)}. The same command tries them again.")


def report(
    *folders: Path,
    out: CheckedBatch = None,
    images: bool = True,
) -> None:
    """Draw what was done again on one page: tables beside the paper's, memory, and the runs with their curves.

    Parameters
    ----------
    folders
        Folders of reproductions, or of their records; runs and comparisons may stand beside them.
    out
        The page. Default: report.html in the first folder.
    images
        Show neighbors, t-SNE and confusion, which embeds the test split of one run of each loss.
    """
    from shadowmetric.app.cli.report import describe_page, page_place
    from shadowmetric.app.cli.screen import say, screen
    from shadowmetric.progress import watch

    if not folders:
        raise Mistake("no folder is named; write `python -m paper report FOLDER`, where FOLDER is that of --out.")
    place = page_place(folders, out, images=images)
    from paper.report import report_studies

    with watch() as bar:
        size = report_studies(folders, place, images=images, tell=bar)
    say(screen(), describe_page(place, size))


def command(name: str, what: ReproduceSettings, *, places: bool = False) -> str:
    """Return the command, without places of this machine unless asked, so that it can stand beside a figure."""
    words = ["python", "-m", "paper", name, "--scale", what.scale]
    words += ["--only", *what.only] if what.only else []
    words += ["--weights", what.weights if places else Path(what.weights).name] if what.weights else []
    for option in ("data_root", "out", "records", "jobs") if places else ():
        value = getattr(what, option)
        words += [] if value is None else ["--" + option.replace("_", "-"), str(value)]
    return shlex.join(words)
