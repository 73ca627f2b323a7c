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

from shadowmetric.app.doctor.devices.figures import Figures


def answer(job: Callable[..., Any], record: Callable[[Any], Figures]) -> None:
    """Measure the job that the command line describes, and print its record."""
    offer_this_process_first()
    print(json.dumps(record(job(**json.loads(sys.argv[1])))))


def offer_this_process_first() -> None:
    """Ask the kernel to end this process before any other should memory run out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
