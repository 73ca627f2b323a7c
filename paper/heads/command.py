"""`python -m paper.heads`: the paper's protocol and rows of free length, as heads on cached features."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from shadowmetric.app import cli
from shadowmetric.app.cli.config import CONFIG_HELP, config_reader
from shadowmetric.app.cli.train import RUNS
from shadowmetric.errors import Interrupted, Mistake

RECORDS = Path("paper/records/heads")
EXAMPLES = f"""\
{CONFIG_HELP}

Studies: protocol, Shadow, Triplet and its control as the paper trains them, ten seeds; free, Shadow and Triplet on rows
of free length, each setting with a margin of its own, ten seeds.

Examples:

    python -m paper.heads protocol --data-root data
    python -m paper.heads protocol free --only glyphs cub200 --weights tf_efficientnet_lite0.safetensors

The record grows by a line for each training; the same command goes on where it was stopped.
"""
Names = Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="", show_default=False)]
SomePath = Annotated[Path | None, Parameter(show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class HeadSettings:
    """What is trained, and where things are."""

    only: Names = ()
    """Datasets, instead of all."""
    data_root: SomePath = None
    """Where datasets lie. Default: $SHADOWMETRIC_DATA, else ./data."""
    weights: Annotated[str | None, Parameter(show_default=False)] = None
    """A file of weights instead of published ones, which would be downloaded."""
    features: SomePath = None
    """Folder of the features. Default: runs/heads."""
    records: SomePath = None
    """Folder of the records. Default: paper/records/heads."""


def main(tokens: Sequence[str] | None = None) -> None:
    """Do studies with these words, or those of the command line."""
    cli.main(tokens, command_line)


def command_line(config: Path | None = None, *, first_help: bool = False) -> App:
    """Return the cyclopts application; config is a file of options."""
    app = App(
        name="python -m paper.heads",
        usage="Usage: python -m paper.heads STUDY... [OPTIONS]",
        help_epilogue=EXAMPLES,
        suppress_keyboard_interrupt=False,
        config=[] if config is None else [config_reader(config)],
    )
    app.default(train_heads)
    return app


def train_heads(*studies: str, what: HeadSettings | None = None) -> None:
    """Train what is missing of heads on cached features, and print the tables.

    Parameters
    ----------
    studies
        protocol, free, or both.
    """
    from paper.heads.beds import BEDS
    from paper.heads.comparisons import answer, free_comparisons, read_stores
    from paper.heads.tables import tables
    from paper.heads.work import WORK, open_bench
    from shadowmetric.app.cli.screen import say, screen
    from shadowmetric.app.report.tables import as_markdown
    from shadowmetric.progress import watch

    what = what or HeadSettings()
    for kind, names, known in (("study", studies, list(WORK)), ("--only", what.only, list(BEDS))):
        unknown = [name for name in names if name not in known]
        if unknown:
            raise Mistake(f"{kind} names {unknown[0]!r}; choose of {', '.join(known)}.")
    if not studies:
        raise Mistake(f"no study is named; write `python -m paper.heads {' '.join(WORK)}`, or one of them.")
    words = shlex.join(["python", "-m", "paper.heads", *studies, *(["--only", *what.only] if what.only else [])])
    records, features = what.records or RECORDS, what.features or RUNS / "heads"
    try:
        with watch(quiet=0.0) as bar:
            for name in what.only or BEDS:
                bench = open_bench(BEDS[name], records, features, what.data_root, what.weights, words, bar)
                for study in studies:
                    for said in WORK[study](bench):
                        bar(said, 0.0)
    except KeyboardInterrupt:
        raise Interrupted(words) from None
    stores = read_stores(records)
    comparisons = free_comparisons(stores)
    for table in tables(stores, comparisons):
        say(screen(), f"{table.title}\n\n{as_markdown(table)}")
    say(screen(), answer(comparisons))
    say(screen(), f"Every training: {records}.")
