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

NAMED = 5  # broken pictures


def say_indexed(made: Indexed, place: Path) -> None:
    """Say what an indexing did, and what to do next."""
    console = screen()
    say_notes(console, made.notes, made.broken)
    say(console, f"{made.pictures:,} pictures: {counted(made)}; {made.embedded:,} embedded.")
    if made.approximate:
        say(console, f"Approximate, {made.approximate}.")
    say(console, f"The index is {one_line(str(place))}, {place.stat().st_size / 1e6:.1f} MB. Search it by")
    say_next(console, str(place))


def say_filled(filled: Filled, to: str) -> None:
    """Say what the filling of a store did, and what to do next."""
    console = screen()
    say_notes(console, filled.notes, filled.broken)
    say(console, f"{counted(filled)}. Search it by")
    say_next(console, without_secrets(to))


def counted(made: Indexed | Filled) -> str:
    """Return what differs from before."""
    names = ("added", "changed", "removed", "unchanged")
    return ", ".join(f"{getattr(made, name):,} {name}" for name in names)


def say_notes(console: Console, notes: Sequence[str], broken: Sequence[str]) -> None:
    """Say what was passed over, and name some pictures that cannot be read."""
    for note in notes:
        say(console, one_line(note))
    if broken:
        say(console, f"{len(broken):,} pictures cannot be read and are left out:", "yellow")
        for sentence in broken[:NAMED]:
            say(console, f"  {one_line(sentence)}")
        if len(broken) > NAMED:
            say(console, f"  and {len(broken) - NAMED:,} more.")


def say_next(console: Console, place: str) -> None:
    """Say how to search."""
    place = one_line(shlex.quote(place))
    say(console, f"  shadowmetric search {place} PICTURE")
    say(console, f"  shadowmetric serve {place}")
