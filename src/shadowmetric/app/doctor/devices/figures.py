"""What was measured of a program that may fail: its figures, or the reason why there are none."""

from collections.abc import Callable

Figures = dict[str, float | int | str | None]


def figures_or_reason(figures: Callable[[], Figures], package: str) -> Figures:
    """Return the figures, or the reason why there are none; package: what an import error is about."""
    try:
        return figures()
    except ImportError as missing:
        return {"reason": f"{package} cannot be imported: {_one_line(missing)}"}
    except Exception as failure:  # a contender is foreign code: whatever it raises is its row
        return {"reason": f"{type(failure).__name__}: {_one_line(failure)}"}


def _one_line(failure: Exception) -> str:
    return (str(failure).strip().splitlines() or ["no message"])[0]
