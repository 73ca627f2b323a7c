"""How long work says how far it has come: it calls a `Report` with the stage and the share of the whole that is done.

Stages take very different times, so `Stages` counts their expected cost, in numbers multiplied or compared. `Bar` is
the Report that people look at: one line over all stages on standard error, if that is a terminal, with an estimate of
what remains. It appears after two seconds and leaves nothing behind. `Lines` is for a log: a whole line at each stage,
and each minute, whether the work reports anything or not. `watch` chooses between the two for a command.
"""

import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

PATIENCE = 2.0  # seconds without a bar
REDRAWN = 0.1  # seconds between two drawings
WIDTH = 40  # letters of the bar itself
QUIET = 5.0  # seconds at least between two lines
MINUTE = 60.0  # seconds between two lines of one stage
FIGURES = re.compile(r"\s*\d+ %$")  # of a stage that says how far it is itself
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


class Lines:
    """Whole lines on standard error. Use as a context manager and call as a Report."""

    def __init__(self, quiet: float | None = None, pause: float = MINUTE, tick: float = 1.0):
        self.pause, self.tick = pause, tick
        self.begun = time.monotonic()
        self.said_at = self.begun + (0 if quiet is None else quiet - QUIET)  # as if a line had been said then
        self.said: str | None = None  # the last stage
        self.now: tuple[str, float] | None = None
        self.lock, self.ended = threading.Lock(), threading.Event()
        self.watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Lines":
        self.watcher.start()
        return self

    def __call__(self, stage: str, share: float) -> None:
        """Note where the work is, and say so if that is due."""
        with self.lock:
            self.now = stage, share
            self._say_if_due()

    def __exit__(self, *error: object) -> None:
        self.ended.set()
        self.watcher.join()

    def _watch(self) -> None:
        """Say what is due while the work reports nothing."""
        while not self.ended.wait(self.tick):
            with self.lock:
                self._say_if_due()

    def _say_if_due(self) -> None:
        """Say a line if the stage is another one since the last line, which is not long ago, or a minute has passed."""
        now = time.monotonic()
        if self.now is None:
            return
        (stage, share), named = self.now, FIGURES.sub("", self.now[0])
        if now < self.said_at + (self.pause if named == self.said else QUIET):
            return
        self.said, self.said_at, seconds = named, now, now - self.begun
        left = f": {100 * share:.0f} %, about {clock(seconds * (1 - share) / share)} left" if share > 0 else ""
        line = "".join(c if c.isprintable() and can_be_written(c) else "?" for c in f"{clock(seconds)}  {stage}{left}")
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def watch(quiet: float | None = None) -> "Bar | Lines":
    """Return what a command reports to: a bar in a terminal, lines elsewhere.

    quiet: seconds before the first line; five if none are given.
    """
    return Bar() if sys.stderr is None or sys.stderr.isatty() else Lines(quiet)


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
