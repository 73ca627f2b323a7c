"""How long work tells how far it has come: it calls a `Report` with the stage and the share of it that is done."""

from collections.abc import Callable

Report = Callable[[str, float], None]


def silent(stage: str, share: float) -> None:
    """Tell nobody."""
