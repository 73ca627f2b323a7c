"""The tables of `python -m benchmarks losses`: one for each (S, D), and the ratios of all of them."""

from rich import box
from rich.table import Table

from benchmarks.run import Row
from benchmarks.screen import format_figure

FIGURES = {  # column -> its heading
    "forward_ms": "forward ms",
    "backward_ms": "backward ms",
    "total_ms": "total ms",
    "ratio_to_product": "× product",
    "peak_extra_mb": "peak MB",
    "kept_bytes": "kept bytes",
}


def cell(row: Row) -> tuple[int, int]:
    """Return the (S, D) of a row."""
    return row["batch"], row["dim"]


def cell_table(rows: list[Row]) -> Table:
    """Return the table of one (S, D)."""
    batch, dim = cell(rows[0])
    table = Table(title=f"S = {batch}, D = {dim}", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("contender", no_wrap=True)
    for heading in FIGURES.values():
        table.add_column(heading, justify="right")
    if any(row["reason"] for row in rows):
        table.add_column("why not", overflow="fold")
    for row in rows:
        table.add_row(row["contender"], *(format_figure(row[column]) for column in FIGURES), row["reason"] or "")
    return table


def ratio_table(rows: list[Row]) -> Table:
    """Return for each (S, D) how many times as long the peers take as ours, and ours as the bare product."""
    table = Table(title="Ratios of total time", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("S", "D", "pml / ours", "st / ours", "algorithm-1 / ours", "ours / bare product"):
        table.add_column(heading, justify="right")
    total = {(cell(row), row["contender"]): row["total_ms"] for row in rows}
    for here in (row for row in rows if row["contender"] == "ours"):
        ours = here["total_ms"]
        others = [total.get((cell(here), name)) for name in ("pml", "st", "algorithm-1")]
        against = [format_figure(other / ours if other and ours else None, "×") for other in others]
        table.add_row(str(here["batch"]), str(here["dim"]), *against, format_figure(here["ratio_to_product"], "×"))
    return table
