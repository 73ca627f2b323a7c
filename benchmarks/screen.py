"""How a bench looks in a terminal: a table for each size that grows by rows, and a bar of what remains.

A table is printed for good when its last contender is done, so a long bench scrolls as any log does.
The bar counts expected seconds, not rows: a row may take a blink or a minute.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from benchmarks.run import Kind, Row, Skip, rows
from benchmarks.settings import open_csv
from shadowmetric.app.cli.screen import screen

LONG_MEMORY = 24 * 3600  # seconds of history for the speed of the bar: all of it


class Step(NamedTuple):
    """One job as the screen sees it. Steps of one cell stand together, and share a table."""

    name: str
    cell: tuple[int, ...]
    seconds: float


def run_jobs(bench: Kind, jobs: Sequence[Any], skip: Skip, timeout: float, out: Path, shown_on: "BenchScreen") -> None:
    """Run the jobs, show their rows and write them to the CSV; control-C keeps what is done."""
    with open_csv(out) as file:
        try:
            with shown_on:
                for row in rows(bench, jobs, skip, timeout, file):
                    shown_on.add(row)
        except KeyboardInterrupt:
            shown_on.say(f"Stopped. The rows that finished are in {out.resolve()}")
            sys.exit(130)


class BenchScreen:
    """Shows rows as they finish. Use as a context manager. draw: turns the rows of a cell into its table."""

    def __init__(self, steps: Sequence[Step], draw: Callable[[list[Row]], Table]):
        self.steps = steps
        self.draw = draw
        self.rows: list[Row] = []
        self.console = screen()
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=self.console,
            speed_estimate_period=LONG_MEMORY,
        )
        self.task = self.progress.add_task("", total=sum(step.seconds for step in steps))
        self.live = Live(console=self.console, transient=True, refresh_per_second=2)

    def __enter__(self) -> None:
        self.live.start()
        self._refresh()

    def __exit__(self, *error: object) -> None:
        self.live.update(Group())
        self.live.stop()

    def add(self, row: Row) -> None:
        """Show one more row; print the table of its cell if that is complete."""
        step = self.steps[len(self.rows)]
        self.progress.advance(self.task, step.seconds)
        self.rows.append(row)
        done = len(self.rows)
        if done == len(self.steps) or self.steps[done].cell != step.cell:
            self.live.console.print(self.draw(self._rows_of(step.cell)))
        self._refresh()

    def say(self, sentence: str) -> None:
        """Print a sentence on a line of its own, never folded."""
        self.console.print(sentence, soft_wrap=True, highlight=False, markup=False)

    def _rows_of(self, cell: tuple[int, ...]) -> list[Row]:
        return [row for row, step in zip(self.rows, self.steps, strict=False) if step.cell == cell]

    def _refresh(self) -> None:
        if len(self.rows) == len(self.steps):
            return
        step = self.steps[len(self.rows)]
        self.progress.update(self.task, description=step.name)
        started = self._rows_of(step.cell)
        self.live.update(Group(self.draw(started), self.progress) if started else self.progress, refresh=True)


def format_figure(value: float | int | str | None, unit: str = "") -> str:
    """Return a figure with three digits, a count in full, a word as it is, and a dash for nothing."""
    if value is None:
        return "–"
    if isinstance(value, float):
        digits = 2 if value < 10 else 1 if value < 100 else 0
        return f"{value:,.{digits}f}{unit}"
    return f"{value:,}" if isinstance(value, int) else value
