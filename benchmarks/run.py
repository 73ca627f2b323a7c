"""Run jobs one after another, each in its own process, and turn whatever happens into a row of a CSV.

A job is a dataclass; its fields, what its process says and the place where it was measured make the row, which
has every column of its kind of bench. A job that was skipped, raised, ran out of time or was killed has no
figures but a `reason`; the run goes on. Rows are written as they finish: an interrupted bench keeps them.
"""

import csv
import datetime
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any, NamedTuple, TextIO

import torch

from shadowmetric.app.training.runs.origin import cpu_name

PLACE_COLUMNS = ("torch", "threads", "cpu", "date")

Row = dict[str, Any]
Skip = Callable[[Any], str | None]  # why a job is not run, or None if it is


class Kind(NamedTuple):
    """One kind of bench: the command that measures a job, and the columns of a row."""

    worker: tuple[str, ...]
    columns: tuple[str, ...]


def kind(module: str, *columns: str) -> Kind:
    """Return the bench whose jobs this module measures; columns: those of the job and of its figures."""
    return Kind((sys.executable, "-m", module), (*columns, *PLACE_COLUMNS))


def rows(bench: Kind, jobs: Iterable[Any], skip: Skip, timeout: float, file: TextIO) -> Iterator[Row]:
    """Yield a row for each job as it finishes, written to the CSV file already."""
    writer: csv.DictWriter[str] = csv.DictWriter(file, bench.columns)
    writer.writeheader()
    for job in jobs:
        reason = skip(job)
        outcome = {"reason": f"skipped: {reason}"} if reason else run_job(bench, job, timeout)
        row = dict.fromkeys(bench.columns) | asdict(job) | outcome | place()
        writer.writerow(row)
        file.flush()
        yield row


def run_job(bench: Kind, job: Any, timeout: float) -> Row:
    """Measure the job in a new process; return its figures or the reason why there are none."""
    try:
        command = [*bench.worker, json.dumps(asdict(job))]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"reason": f"took longer than the limit of {timeout:.0f} s"}
    try:
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {"reason": death_reason(done.returncode, done.stderr)}


def death_reason(code: int, errors: str) -> str:
    """Say in one line why a process ended without its record."""
    if code < 0:
        likely = ", most likely out of memory" if -code == signal.SIGKILL else ""
        return f"killed by {signal.Signals(-code).name}{likely}"
    last = errors.strip().splitlines()[-1:] or ["it said nothing"]
    return f"ended with exit code {code}: {last[0]}"


def place() -> Row:
    """Return where and when this is measured."""
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cpu": cpu_name(),
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
    }
