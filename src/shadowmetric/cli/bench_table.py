"""How a bench looks in a terminal: a table for each (S, D) that grows by rows, and a bar of what remains.

A table is printed for good when its last contender is done, so a long bench scrolls as any log does.
The bar counts expected seconds, not rows: a row may take a blink or a minute.
"""

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from shadowmetric.bench.plan import Job, Machine, expected_seconds, skip_reason
from shadowmetric.bench.run import Row

WIDTH_WITHOUT_TERMINAL = 120
LONG_MEMORY = 24 * 3600  # seconds of history for the speed of the bar: all of it
FIGURES = {  # column -> its heading
    "forward_ms": "forward ms",
    "backward_ms": "backward ms",
    "total_ms": "total ms",
    "ratio_to_product": "× product",
    "peak_extra_mb": "peak MB",
    "kept_bytes": "kept bytes",
}


class BenchTable:
    """Shows rows as they finish. Use as a context manager."""

    def __init__(self, jobs: list[Job], machine: Machine, timeout: float):
        self.jobs = jobs
        self.seconds = [0.0 if skip_reason(job, machine, timeout) else expected_seconds(job, machine) for job in jobs]
        self.rows: list[Row] = []
        self.console = Console()
        if not self.console.is_terminal:
            self.console = Console(width=WIDTH_WITHOUT_TERMINAL)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=self.console,
            speed_estimate_period=LONG_MEMORY,
        )
        self.task = self.progress.add_task("", total=sum(self.seconds))
        self.live = Live(console=self.console, transient=True, refresh_per_second=2)

    def __enter__(self) -> None:
        self.live.start()
        self._refresh()

    def __exit__(self, *error: object) -> None:
        self.live.update(Group())
        self.live.stop()

    def add(self, row: Row) -> None:
        """Show one more row; print the table of its (S, D) if that is complete."""
        self.progress.advance(self.task, self.seconds[len(self.rows)])
        self.rows.append(row)
        done = len(self.rows)
        if done == len(self.jobs) or cell(row) != (self.jobs[done].batch, self.jobs[done].dim):
            self.live.console.print(cell_table([row_ for row_ in self.rows if cell(row_) == cell(row)]))
        self._refresh()

    def say(self, sentence: str) -> None:
        """Print a sentence on a line of its own, never folded."""
        self.console.print(sentence, soft_wrap=True, highlight=False, markup=False)

    def print_ratios(self) -> None:
        """Print how this library compares with each peer and with the bare product, size by size."""
        if any(row["contender"] == "ours" for row in self.rows):
            self.console.print(ratio_table(self.rows))

    def _refresh(self) -> None:
        if len(self.rows) == len(self.jobs):
            return
        job = self.jobs[len(self.rows)]
        self.progress.update(self.task, description=f"{job.contender} at {job.batch} × {job.dim}")
        started = [row for row in self.rows if cell(row) == (job.batch, job.dim)]
        self.live.update(Group(cell_table(started), self.progress) if started else self.progress, refresh=True)


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
        table.add_row(row["contender"], *(shown(row[column]) for column in FIGURES), row["reason"] or "")
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
        against = [shown(other / ours if other and ours else None, "×") for other in others]
        table.add_row(str(here["batch"]), str(here["dim"]), *against, shown(here["ratio_to_product"], "×"))
    return table


def shown(value: float | int | str | None, unit: str = "") -> str:
    """Return a figure with three digits, a count in full, a word as it is, and a dash for nothing."""
    if value is None:
        return "–"
    if isinstance(value, float):
        digits = 2 if value < 10 else 1 if value < 100 else 0
        return f"{value:,.{digits}f}{unit}"
    return f"{value:,}" if isinstance(value, int) else value
