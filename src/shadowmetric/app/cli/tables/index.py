"""What `shadowmetric index` says at the end."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from shadowmetric.app.cli import one_line
from shadowmetric.app.cli.screen import say, screen
from shadowmetric.app.serving.indexing.build import Indexed
from shadowmetric.app.serving.stores.address import without_secrets
from shadowmetric.app.serving.stores.filling import Filled
from shadowmetric.runtime.counting import count

NAMED = 5  # broken images


def say_indexed(summary: Indexed, place: Path) -> None:
    """Say what an indexing did, and what to do next."""
    console = screen()
    say_notes(console, summary.notes, summary.broken)
    say(console, f"{summary.images:,} images: {format_changes(summary)}; {summary.embedded:,} embedded.")
    if summary.approximate:
        say(console, f"Approximate, {summary.approximate}.")
    say(console, f"The index is {one_line(str(place))}, {place.stat().st_size / 1e6:.1f} MB. Search it by")
    say_next(console, str(place))


def say_filled(filled: Filled, to: str) -> None:
    """Say what the filling of a store did, and what to do next."""
    console = screen()
    say_notes(console, filled.notes, filled.broken)
    say(console, f"{format_changes(filled)}. Search it by")
    say_next(console, without_secrets(to))


def format_changes(summary: Indexed | Filled) -> str:
    """Return what differs from before."""
    names = ("added", "changed", "removed", "unchanged")
    return ", ".join(f"{getattr(summary, name):,} {name}" for name in names)


def say_notes(console: Console, notes: Sequence[str], broken: Sequence[str]) -> None:
    """Say what was passed over, and name some images that cannot be read."""
    for note in notes:
        say(console, one_line(note))
    if broken:
        say(console, f"{count(len(broken), 'image cannot', 'images cannot')} be read, and left out:", "yellow")
        for sentence in broken[:NAMED]:
            say(console, f"  {one_line(sentence)}")
        if len(broken) > NAMED:
            say(console, f"  and {len(broken) - NAMED:,} more.")


def say_next(console: Console, place: str) -> None:
    """Say how to search."""
    place = one_line(shlex.quote(place))
    say(console, f"  shadowmetric search {place} IMAGE")
    say(console, f"  shadowmetric serve {place}")
