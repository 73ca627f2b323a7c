"""A plan, before the work or instead of it."""

import sys
from collections.abc import Sequence
from json import dumps
from typing import Any, Protocol, runtime_checkable

from shadowmetric.app.cli.screen import say, screen


@runtime_checkable
class Expected(Protocol):
    """What work will take."""

    def sentences(self) -> tuple[str, ...]:
        """Say the plan, a line for each thing."""
        ...

    def plain(self) -> dict[str, Any]:
        """Return the figures as JSON has them."""
        ...


def print_plan(plan: Expected, advice: Sequence[str], as_json: bool) -> None:
    """Print a plan that is all that was asked for."""
    console = screen()
    if as_json:
        console.out(dumps(plan.plain(), indent=2), highlight=False)
        return
    say(console, "Plan", "bold")
    for line in (*plan.sentences(), *advice):
        say(console, line)
    say(console, "Nothing was begun: that was --dry-run.", "dim")


def announce_plan(plan: Expected, advice: Sequence[str]) -> None:
    """Print a plan on standard error, since the work follows and has its own output."""
    if sys.stderr is not None:
        print("Plan", *plan.sentences(), *advice, sep="\n", file=sys.stderr, flush=True)
