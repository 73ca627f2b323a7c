"""How far an evaluation has come: one bar over all its stages, with an estimate of what remains.

Stages take very different times, so the bar counts their expected cost, in numbers multiplied or compared.
It appears on standard error after two seconds, if that is a terminal.
"""

import sys
import time
from collections.abc import Callable, Mapping

from shadowmetric.ops.similarity_blocks import Progress

PATIENCE = 2.0  # seconds without a bar
LONG_MEMORY = 24 * 3600  # seconds of history for the speed of the bar: all of it

Report = Callable[[str, float], None]  # told the stage, and the share of the whole that is done


class Stages:
    """The stages of one evaluation and what each is expected to cost."""

    def __init__(self, costs: Mapping[str, float], report: Report | None):
        self.costs = costs
        self.report = report
        self.total = sum(costs.values()) or 1.0
        self.done = 0.0

    def stage(self, name: str) -> Progress:
        """Begin a stage; return what its loop tells its own share to."""
        before, cost = self.done, self.costs[name]
        self.done += cost

        def tell(share: float) -> None:
            if self.report is not None:
                self.report(name, min((before + cost * share) / self.total, 1.0))

        tell(0.0)
        return tell


class Bar:
    """A bar of rich on standard error. Use as a context manager and call as a Report."""

    def __init__(self, patience: float = PATIENCE):
        self.wait = time.monotonic() + patience
        self.progress = None

    def __enter__(self) -> "Bar":
        return self

    def __call__(self, stage: str, share: float) -> None:
        """Show the stage and the share of the whole that is done."""
        if self.progress is None and sys.stderr.isatty() and time.monotonic() > self.wait:
            self._show()
        if self.progress is not None:
            self.progress.update(self.task, description=stage, completed=share)

    def __exit__(self, *error: object) -> None:
        if self.progress is not None:
            self.progress.stop()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self.progress = Progress(
            *columns,
            TextColumn("left"),
            console=Console(stderr=True),
            transient=True,
            speed_estimate_period=LONG_MEMORY,
        )
        self.task = self.progress.add_task("", total=1.0)
        self.progress.start()
