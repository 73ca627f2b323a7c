"""The tables of a study in a terminal; whole, in Markdown beside its records."""

from pathlib import Path

from rich.console import Console
from rich.table import Table as Shown

from paper.study import Study, records_in
from shadowmetric.app.cli.screen import fits, new_table, say, screen, show
from shadowmetric.app.report.tables import Table, as_markdown
from shadowmetric.runtime.files import write_text

LEAST_COLUMNS = 2


def print_study(study: Study, records: Path, failures: dict[str, str]) -> None:
    """Print every table of a study as far as it fits, and where the whole is."""
    console = screen()
    tables = [table for table in study.tables(records_in(records, study.record_names())) if table.rows]
    for table in tables:
        view, left_out = fitting(console, table)
        show(console, view)
        if left_out:
            say(console, f"Not shown for want of room: {', '.join(left_out)}.")
        say(console, table.caption.replace("*", "").replace("`", ""))
    for name, reason in failures.items():
        say(console, f"{name} failed: {reason}", "red")
    if tables:
        whole = records / f"{study.name}.md"
        write_text(whole, "\n".join(f"## {table.title}\n\n{as_markdown(table)}" for table in tables))
        say(console, f"The whole of it: {whole}.")
    say(console, f"Every run with its journal: {records}.")


def fitting(console: Console, table: Table) -> tuple[Shown, list[str]]:
    """Return as many columns as fit, the first and the last in any case, and the headings of the others."""
    kept = list(range(len(table.headings)))
    while not fits(console, draw_columns(table, kept)) and len(kept) > LEAST_COLUMNS:
        kept.pop(-2)
    left_out = [heading for column, heading in enumerate(table.headings) if column not in kept]
    return draw_columns(table, kept), left_out


def draw_columns(table: Table, kept: list[int]) -> Shown:
    """Return some columns of a table, with a line between losses, controls and floors."""
    view = new_table(table.title, *(table.headings[column] for column in kept))
    view.columns[0].justify = "left"
    before = None
    for row, kind in zip(table.rows, table.kinds, strict=True):
        if before not in (None, kind):
            view.add_section()
        before = kind
        view.add_row(*(row[column] for column in kept))
    return view
