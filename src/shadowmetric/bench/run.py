"""Run jobs one after another, each in its own process, and turn whatever happens into a row of a CSV.

A row has every column of COLUMNS. A job that was skipped, raised, ran out of time or was killed has no
figures but a `reason`; the run goes on. Rows are written as they finish: an interrupted bench keeps them.
"""

import csv
import datetime
import json
import platform
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import torch

from shadowmetric.bench.plan import Job, Machine, skip_reason

WORKER = (sys.executable, "-m", "shadowmetric.bench.worker")
JOB_COLUMNS = ("contender", "batch", "dim", "per_class", "seed", "clustered", "repeats")
FIGURE_COLUMNS = (
    "forward_ms",
    "backward_ms",
    "total_ms",
    "spread",
    "product_ms",
    "ratio_to_product",
    "peak_extra_mb",
    "kept_bytes",
    "reason",
    "version",
)
PLACE_COLUMNS = ("torch", "threads", "cpu", "date")
COLUMNS = (*JOB_COLUMNS, *FIGURE_COLUMNS, *PLACE_COLUMNS)

Row = dict[str, Any]


def rows(jobs: Iterable[Job], machine: Machine, timeout: float, file: TextIO) -> Iterator[Row]:
    """Yield a row for each job as it finishes, written to the CSV file already."""
    writer: csv.DictWriter[str] = csv.DictWriter(file, COLUMNS)
    writer.writeheader()
    for job in jobs:
        reason = skip_reason(job, machine, timeout)
        outcome = {"reason": f"skipped: {reason}"} if reason else run_job(job, timeout)
        row = complete_row(job, outcome)
        writer.writerow(row)
        file.flush()
        yield row


def run_job(job: Job, timeout: float) -> Row:
    """Measure the job in a new process; return its figures or the reason why there are none."""
    try:
        command = [*WORKER, json.dumps(asdict(job))]
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


def complete_row(job: Job, outcome: Row) -> Row:
    """Return a row with every column: the job, its outcome, and where and when it was measured."""
    place = {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cpu": cpu_name(),
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
    }
    return dict.fromkeys(COLUMNS) | asdict(job) | outcome | place


def cpu_name() -> str:
    """Return the processor's name as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine() or "unknown"
