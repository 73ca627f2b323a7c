"""The runs, and a row for each: what was planned, and what it took.

Kinds differ in what the time goes to: a small network on images in memory, a loss that mines, files that are decoded
first, a large network of whose batch a part is timed, micro-batches.
"""

import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.run import place
from shadowmetric.runtime.files import read_rows

SMALL = "--backbone small_cnn --size 32 --epochs 3"
RUNS = {
    "glyphs": "--data glyphs --epochs 4",
    "glyphs-shadow": "--data glyphs --loss shadow --epochs 4",
    "cifar10": "--data cifar10 --most-per-class 300 --epochs 3",
    "ham10000": f"--data ham10000 --most-per-class 100 --allow-partial {SMALL}",
    "cub200-resnet18": "--data cub200 --backbone resnet18 --size 64 --most-per-class 4 --epochs 2",
    "cub200-pieces": "--data cub200 --backbone resnet18 --size 64 --most-per-class 4 --epochs 2 --logical-batch 128",
}


def run_missing(names: Sequence[str], out: Path, data_root: Path | None) -> Iterator[dict[str, Any]]:
    """Yield the row of each run that the file lacks, when it is written."""
    known = {row["run"] for row in read_rows(out)} if out.exists() else set()
    for name in names:
        if name not in known:
            row = {"run": name, "options": RUNS[name]} | run_one(RUNS[name], data_root) | place()
            append(out, row)
            yield row


def run_one(options: str, data_root: Path | None) -> dict[str, float]:
    """Return what a run planned and what it took."""
    where = [] if data_root is None else ["--data-root", str(data_root)]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "-m", "shadowmetric", "train", *options.split(), *where, "--out", str(run)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-500:]}")
        record = json.loads((run / "plan.json").read_text(encoding="utf-8"))
    planned, measured = record["planned"], record["measured"]
    return {
        "planned_seconds": planned["expected_seconds"],
        "seconds": measured["seconds"],
        "planned_bytes": planned["expected_bytes"],
        "bytes": measured["bytes"],
    }


def append(out: Path, row: dict[str, Any]) -> None:
    """Write a row at the end of the file, below a heading if it is the first."""
    new = not out.exists()
    with out.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)
