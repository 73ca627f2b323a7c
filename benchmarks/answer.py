"""What the process of a job says: one JSON line on standard output, with its figures or the reason for none.

A process of its own per job is what makes peak memory mean something: no contender inherits memory that
another one has already touched. Whatever goes wrong in a contender becomes the line's `reason`.
"""

import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Figures = dict[str, float | int | str | None]


def answer(job: Callable[..., Any], record: Callable[[Any], Figures]) -> None:
    """Measure the job that the command line describes, and print its record."""
    offer_this_process_first()
    print(json.dumps(record(job(**json.loads(sys.argv[1])))))


def figures_or_reason(figures: Callable[[], Figures], package: str) -> Figures:
    """Return the figures, or the reason why there are none; package: what an import error is about."""
    try:
        return figures()
    except ImportError as missing:
        return {"reason": f"{package} cannot be imported: {_one_line(missing)}"}
    except Exception as failure:  # a contender is foreign code: whatever it raises is its row
        return {"reason": f"{type(failure).__name__}: {_one_line(failure)}"}


def offer_this_process_first() -> None:
    """Ask the kernel to end this process before any other should memory run out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _one_line(failure: Exception) -> str:
    return (str(failure).strip().splitlines() or ["no message"])[0]
