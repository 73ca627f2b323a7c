"""What a run tells whoever watches: in a terminal a line that moves, elsewhere a line an epoch and a minute."""

import sys
import time
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

REFRESH = 0.2  # seconds between changes of the moving line
BAR = 16  # letters
FIRST, MINUTE = 5.0, 60.0  # seconds without a line where nothing moves: before the first, and between two


@dataclass
class Moment:
    """Where a run stands, for the moving line."""

    epoch: int  # under way, from 1
    epochs: int
    batch: int  # of the epoch, done
    batches: int
    loss: float
    images_per_second: float
    active: float | None
    positive_gap: float | None  # medians of 1 - cos
    negative_gap: float | None
    seconds_left: float
    warnings: list[str]


@runtime_checkable
class Show(Protocol):
    """Is told what happens."""

    def notes(self, sentences: tuple[str, ...]) -> None:
        """Say what was prepared."""
        ...

    def wants_plan(self) -> bool:
        """Return whether somebody wants to know, before the work, what it will take."""
        ...

    def stage(self, name: str, share: float) -> None:
        """Say how far a stage is."""
        ...

    def wants(self) -> bool:
        """Return whether it is time for a moment."""
        ...

    def moment(self, moment: Moment) -> None:
        """Say where the run stands."""
        ...

    def epoch(self, line: dict[str, Any]) -> None:
        """Say what an epoch brought."""
        ...

    def close(self) -> None:
        """Leave the screen as it should stay."""
        ...


class Silent:
    """Shows nothing."""

    def notes(self, sentences: tuple[str, ...]) -> None:
        """Say nothing."""

    def wants_plan(self) -> bool:
        """Nobody."""
        return False

    def stage(self, name: str, share: float) -> None:
        """Say nothing."""

    def wants(self) -> bool:
        """Never."""
        return False

    def moment(self, moment: Moment) -> None:
        """Say nothing."""

    def epoch(self, line: dict[str, Any]) -> None:
        """Say nothing."""

    def close(self) -> None:
        """Nothing is open."""


class Screen(Silent):
    """Shows a run on standard error: a line that moves in a terminal or one a minute elsewhere, and one an epoch."""

    def __init__(self):
        from rich.console import Console

        self.console = Console(stderr=True, highlight=False)
        self.live: Any = None
        self.next = 0.0 if self.console.is_terminal else time.monotonic() + FIRST
        self.warned: set[str] = set()
        self.begun: tuple[str, float, float] = ("", 0.0, 0.0)  # a stage, when it was first heard of, and how far it was

    def notes(self, sentences: tuple[str, ...]) -> None:
        """Print each sentence."""
        for sentence in sentences:
            self._print(sentence)

    def wants_plan(self) -> bool:
        """Somebody reads."""
        return True

    def stage(self, name: str, share: float) -> None:
        """Move the line, if it is time."""
        now = time.monotonic()
        if self.begun[0] != name or share < self.begun[2]:
            self.begun = name, now, share
        if self.wants():
            between = f" {bar(share)}" if self.console.is_terminal else ":"
            _, began, before = self.begun
            left = (now - began) * (1 - share) / (share - before) if share > before else None
            after = "" if left is None or now - began < FIRST else f"  {duration(left)} left"
            self._move(f"{name}{between} {100 * share:.0f} %{after}")

    def wants(self) -> bool:
        """Return whether the line has stood for a while."""
        return time.monotonic() >= self.next

    def moment(self, moment: Moment) -> None:
        """Move the line."""
        done = bar(moment.batch / max(1, moment.batches)) if self.console.is_terminal else place_of(moment)
        parts = [
            f"epoch {moment.epoch}/{moment.epochs} {done}",
            f"loss {moment.loss:.4f}",
            f"{moment.images_per_second:,.0f} images/s",
        ]
        if moment.active is not None:
            parts.append(f"active {100 * moment.active:.0f} %")
        if moment.positive_gap is not None and moment.negative_gap is not None:
            parts.append(f"gaps {moment.positive_gap:.2f} | {moment.negative_gap:.2f}")
        parts.append(f"{duration(moment.seconds_left)} left")
        self._move("  ".join(parts))
        self._warn(moment.warnings)

    def epoch(self, line: dict[str, Any]) -> None:
        """Print the line of an epoch."""
        self._print(epoch_sentence(line))
        self._warn(line.get("warnings", []))

    def close(self) -> None:
        """Take the moving line away."""
        if self.live is not None:
            self.live.stop()
            self.live = None

    def _warn(self, warnings: list[str]) -> None:
        for warning in warnings:
            remedy = warning.split(" (")[0]
            if remedy not in self.warned:
                self.warned.add(remedy)
                self._print(f"Warning: {warning}.", "yellow")

    def _print(self, sentence: str, style: str = "") -> None:
        from rich.text import Text

        if not self.console.is_terminal:
            self.next = time.monotonic() + MINUTE
        self.console.print(Text(sentence, style), soft_wrap=not self.console.is_terminal)

    def _move(self, text: str) -> None:
        if not self.console.is_terminal:
            self._print(text)
            return
        from rich.live import Live
        from rich.text import Text

        self.next = time.monotonic() + REFRESH
        if self.live is None:
            self.live = Live(console=self.console, transient=True, auto_refresh=False)
            self.live.start()
        self.live.update(Text(text, overflow="ellipsis", no_wrap=True), refresh=True)


def bar(share: float) -> str:
    """Return a bar of which a share is done."""
    full = round(BAR * share)
    return "━" * full + "╌" * (BAR - full)


def place_of(moment: Moment) -> str:
    """Return how far an epoch is, in words."""
    return f"batch {moment.batch:,} of {moment.batches:,}"


def epoch_sentence(line: dict[str, Any]) -> str:
    """Return what an epoch brought in one line."""
    parts = [f"epoch {line['epoch']:>3}", f"loss {line['loss']:.4f}"]
    if line.get("recall_at_1") is not None:
        parts.append(f"Recall@1 {100 * line['recall_at_1']:5.2f} %{' best' if line['is_best'] else '     '}")
        parts.append(f"MAP@R {100 * line['map_at_r']:5.2f} %")
    if line.get("active") is not None:
        parts.append(f"active {100 * line['active']:3.0f} %")
    if line["dead"]:
        parts.append(f"{line['dead']} dead batches")
    parts += [f"{line['images_per_second']:,.0f} images/s", duration(line["seconds"])]
    return "  ".join(parts)


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    seconds = max(0, round(seconds))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"


def screen() -> Show:
    """Return what shows a run on standard error; nothing if there is none."""
    return Silent() if sys.stderr is None else Screen()
