"""How long work says how far it has come: it calls a `Report` with the stage and the share of the whole that is done.

Stages take very different times, so `Stages` counts their expected cost, in numbers multiplied or compared. `Bar` is
the Report that people look at: one line over all stages on standard error, if that is a terminal, with an estimate of
what remains. It appears after two seconds and leaves nothing behind.
"""

import shutil
import sys
import time
from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

PATIENCE = 2.0  # seconds without a bar
REDRAWN = 0.1  # seconds between two drawings
WIDTH = 40  # letters of the bar itself
Progress = Callable[[float], None]  # of one stage: told the share of it that is done, after each block


@runtime_checkable
class Report(Protocol):
    """Hears how far work has come."""

    def __call__(self, stage: str, share: float, /) -> object:
        """Take the stage, and the share of the whole that is done."""
        ...


def silent(stage: str, share: float) -> None:
    """Tell nobody."""


class Stages:
    """The stages of one piece of work and what each is expected to cost."""

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
    """A bar on standard error. Use as a context manager and call as a Report."""

    def __init__(self, patience: float = PATIENCE):
        self.begun = time.monotonic()
        self.next = self.begun + patience
        self.drawn = False

    def __enter__(self) -> "Bar":
        return self

    def __call__(self, stage: str, share: float) -> None:
        """Show the stage and the share of the whole that is done."""
        now = time.monotonic()
        if now > self.next and sys.stderr.isatty():
            self.next, self.drawn = now + REDRAWN, True
            sys.stderr.write("\r" + self._line(stage, share, now - self.begun) + "\x1b[K")
            sys.stderr.flush()

    def __exit__(self, *error: object) -> None:
        if self.drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _line(self, stage: str, share: float, seconds: float) -> str:
        """Return the line, as wide as the terminal at most."""
        full = round(WIDTH * share)
        left = "-:--:--" if share <= 0 else clock(seconds * (1 - share) / share)
        words = f"{'━' * full}{'─' * (WIDTH - full)} {100 * share:3.0f}% {left} left"
        words = "".join(c if can_be_written(c) else "-" for c in words)
        room = shutil.get_terminal_size().columns - 1
        plain = "".join(c if c.isprintable() else "?" for c in stage)
        return f"{plain[: max(0, room - len(words) - 1)]} {words}"[:room]


def clock(seconds: float) -> str:
    """Return a time as hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def can_be_written(letter: str) -> bool:
    """Return whether standard error has a letter."""
    try:
        letter.encode(sys.stderr.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
