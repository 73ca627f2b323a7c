"""The tables of `python -m benchmarks paths`: one for each size, and one of what was compiled."""

from rich import box
from rich.table import Table

from benchmarks.run import Row

FIGURES = ("kernels", "waits", "forward µs", "backward µs", "total µs", "ratio")


def size_table(rows: list[Row]) -> Table:
    """Return the table of one S."""
    title = f"S = {rows[0]['batch']:,}, D = {rows[0]['dim']}, {rows[0]['per_class']} rows a class"
    table = heading(title, "loss", "miner", "contender", figures=FIGURES)
    table.caption = reasons(rows)
    for row in rows:
        times = [number(row[f"{name}_us"]) for name in ("forward", "backward", "total")]
        ratio = "–" if row["ratio"] is None else f"{row['ratio']:.2f}×"
        counts = [number(row[name]) for name in ("kernels", "waits")]
        table.add_row(row["loss"], row["miner"] or "–", row["contender"], *counts, *times, ratio)
    return table


def compile_table(rows: list[Row]) -> Table:
    """Return what torch.compile costs and gains."""
    title = f"torch.compile(fullgraph=True), S = {rows[0]['batch']:,}"
    figures = ("first step s", "later steps µs", "without µs")
    table = heading(title, "loss", "miner", figures=figures)
    table.caption = reasons(rows)
    for row in rows:
        cold = "–" if row["cold_seconds"] is None else f"{row['cold_seconds']:.1f}"
        warm = [number(row[name]) for name in ("warm_us", "eager_us")]
        table.add_row(row["loss"], row["miner"] or "–", cold, *warm)
    return table


def heading(title: str, *words: str, figures: tuple[str, ...]) -> Table:
    """Return a table without rows."""
    table = Table(title=title, title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD)
    for word in words:
        table.add_column(word, no_wrap=True)
    for figure in figures:
        table.add_column(figure, justify="right", no_wrap=True)
    return table


def reasons(rows: list[Row]) -> str | None:
    """Say what was not measured and why, each reason once."""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        if row["reason"]:
            by_reason.setdefault(row["reason"], []).append(row.get("contender") or row["loss"])
    lines = [f"{', '.join(dict.fromkeys(names))}: {reason}" for reason, names in by_reason.items()]
    return "\n".join(lines) or None


def number(value: float | int | None) -> str:
    """Return a count or microseconds as an integer, and a dash for nothing."""
    return "–" if value is None else f"{round(value):,}"
