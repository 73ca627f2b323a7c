"""The tables of a study in a terminal."""

from pathlib import Path

from shadowmetric.cli.screen import new_table, say, screen, show
from shadowmetric.experiments.study import Study, records_in


def print_study(study: Study, records: Path, failures: dict[str, str]) -> None:
    """Print every table of a study, and where its records are."""
    console = screen()
    found = records_in(records, study.record_names())
    for table in study.tables(found):
        shown = new_table(table.title, *table.headings)
        shown.columns[0].justify = "left"
        before = None
        for row, kind in zip(table.rows, table.kinds, strict=True):
            if before not in (None, kind):
                shown.add_section()
            before = kind
            shown.add_row(*row)
        show(console, shown)
        say(console, table.caption.replace("*", "").replace("`", ""))
    for name, reason in failures.items():
        say(console, f"{name} failed: {reason}", "red")
    say(console, f"Every run with its journal: {records}.")
