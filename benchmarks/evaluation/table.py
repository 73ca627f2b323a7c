"""The tables of `python -m benchmarks evaluation`: what each set cost, the figures, and how ours stands to its bars."""

from rich import box
from rich.table import Table

from benchmarks.evaluation.bars import Verdict, ratio, verdicts
from benchmarks.evaluation.plan import FIGURES, cell
from benchmarks.run import Row
from benchmarks.screen import format_figure

COSTS = {  # column -> its heading
    "retrieval_s": "search + retrieval s",
    "silhouette_s": "silhouette s",
    "total_s": "total s",
    "peak_extra_mb": "peak MB",
}
HEADINGS = {name: name.replace("recall_at_", "R@").replace("map_at_r", "MAP@R") for name in FIGURES}
WORDS = {True: "met", False: "not met", None: "unknown"}


def cost_table(rows: list[Row]) -> Table:
    """Return what one set cost: a line for each contender, and one for ours / peers."""
    table = new_table(set_name(rows[0]), "contender", *COSTS.values())
    if any(row["reason"] for row in rows):
        table.add_column("why not", overflow="fold")
    for row in rows:
        table.add_row(contender_name(row), *(format_figure(row[column]) for column in COSTS), row["reason"] or "")
        if row["extrapolated"]:
            table.caption = (
                f"extrapolated: faiss searched {row['queries']:,} queries; its time is scaled up, its memory is not"
            )
    ours, peers = pair(rows, rows[0])
    if ratio(ours, peers, "total_s"):
        table.add_row(
            "ours / peers", *(format_figure(ratio(ours, peers, column), "×") for column in COSTS), style="bold"
        )
    return table


def figures_table(rows: list[Row]) -> Table:
    """Return the figures of every set that has some."""
    table = new_table("Figures", "set", "contender", *HEADINGS.values())
    last = None
    for row in rows:
        if not row["reason"]:
            name = set_name(row) if cell(row) != last else ""
            figures = (f"{row[figure]:.7f}" if row[figure] is not None else "–" for figure in FIGURES)
            table.add_row(name, row["contender"], *figures)
            last = cell(row)
    return table


def bars_table(rows: list[Row]) -> Table:
    """Return for each set which bars are met."""
    table = new_table("Bars, set for 60,000 × 64 on two cores", "set", "bar", "measured", "at most", "")
    table.columns[1].justify = table.columns[4].justify = "left"
    for here in (row for row in rows if row["contender"] == "ours"):
        ours, peers = pair(rows, here)
        for place, verdict in enumerate(verdicts(ours, peers)):
            table.add_row("" if place else set_name(here), verdict.bar, *numbers(verdict), WORDS[verdict.met])
    return table


def new_table(title: str, first: str, *others: str) -> Table:
    """Return an empty table: names to the left, the rest to the right."""
    table = Table(title=title, title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD)
    table.add_column(first, no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="left" if heading == "contender" else "right")
    return table


def pair(rows: list[Row], here: Row) -> tuple[Row, Row]:
    """Return the rows of ours and of the peers of one set; one that is not there is empty."""
    by_contender = {row["contender"]: row for row in rows if cell(row) == cell(here)}
    return by_contender.get("ours", {}), by_contender.get("peers", {})


def set_name(row: Row) -> str:
    """Return what was evaluated."""
    return f"{row['rows']:,} × {row['dim']}, {row['classes']:,} classes"


def contender_name(row: Row) -> str:
    """Return who evaluated, and whether the time is that of a part."""
    return f"{row['contender']}, extrapolated" if row["extrapolated"] else row["contender"]


def numbers(verdict: Verdict) -> tuple[str, str]:
    """Return the value and its limit, small ones as powers of ten."""
    small = verdict.limit < 1e-3
    value = "–" if verdict.value is None else f"{verdict.value:.1e}" if small else format_figure(verdict.value)
    return value, f"{verdict.limit:g}"
