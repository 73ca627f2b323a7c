"""`python -m benchmarks search`: how long a search takes, beside plain faiss."""

import csv
import io
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from shadowmetric.errors import Mistake

COLUMNS = ("contender", "build s", "MB", "found %", "one query ms", "p95 ms", "of 100 at once ms")


def search(
    *,
    rows: int = 1_000_000,
    dim: int = 64,
    classes: int = 10_000,
    queries: int = 200,
    kinds: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="")] = ("hnsw", "ivf"),
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
) -> None:
    """Measure searches in our index, exact and approximate, beside plain faiss, in one run.

    Parameters
    ----------
    rows
        Rows that are searched.
    dim
        Numbers in a row.
    classes
        Directions that the made rows lie around.
    queries
        How many are asked, one at a time.
    kinds
        Approximate ones: hnsw ivf.
    out
        A CSV file to write, too.
    """
    from benchmarks.search.speed import measure_search
    from shadowmetric.app.cli.screen import new_table, say, screen
    from shadowmetric.app.cli.screen import show as show_tables
    from shadowmetric.app.training.runs.origin import origin
    from shadowmetric.progress import watch
    from shadowmetric.runtime.files import write_text

    for name, value in (("--rows", rows), ("--dim", dim), ("--classes", classes), ("--queries", queries)):
        if value < 2:
            raise Mistake(f"{name} is {value}; it must be 2 or more.")
    with watch() as bar:
        contenders = measure_search(rows, dim, classes, queries, kinds, bar)
    lines = [
        (
            one.name,
            f"{one.build_seconds:.1f}",
            f"{one.bytes / 1e6:.0f}",
            f"{100 * one.found:.1f}",
            f"{one.milliseconds():.2f}",
            f"{one.milliseconds(0.95):.2f}",
            f"{one.milliseconds_together():.3f}",
        )
        for one in contenders
    ]
    table = new_table(f"{rows:,} rows of {dim}, the 10 nearest", *COLUMNS)
    table.columns[0].justify = "left"
    for line in lines:
        table.add_row(*line)
    console = screen()
    show_tables(console, table)
    say(console, "MB: ours on disk, with a name and a hash of 32 bytes for each row; faiss's as it lies in memory.")
    if out is not None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([(*COLUMNS, "commit"), *((*line, origin()["commit"]) for line in lines)])
        write_text(out, text.getvalue())
        say(console, f"The table is {out}")
