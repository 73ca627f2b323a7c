"""`python -m benchmarks fuzz`: damaged files of every format, and what commands make of them."""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclopts import Parameter

from benchmarks.settings import File, Names, csv_path
from shadowmetric.errors import Mistake, Stopped
from shadowmetric.runtime.counting import count
from shadowmetric.runtime.files import write_rows

COLUMNS = ("format", "cases", "sentences", "same answers", "as a plain reader", "others")
SECONDS = 7200.0  # of one format


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FuzzSettings:
    """Settings of `python -m benchmarks fuzz`."""

    cases: int = 1000
    """Damaged files of each format."""
    slow_cases: int = 100
    """The same of each whole command, which takes longer."""
    seed: int = 0
    """Another seed, other cases."""
    formats: Names = ()
    """Only those whose names begin so."""
    csv: File = None
    """CSV file to write. Default: bench-fuzz-DATE-TIME.csv in this folder."""


def fuzz(*, settings: FuzzSettings | None = None) -> None:
    """Damage every file that a command reads, case by case; each must end in a sentence, or in the same answer.

    Files without a digest may say something else: then the answer must be what a plain reader takes from them. The
    exit code is 1 if anything else came of a case.
    """
    from benchmarks.fuzz.originals import write_all
    from shadowmetric.app.cli.screen import say, screen

    settings = settings or FuzzSettings()
    for name, value in (("--cases", settings.cases), ("--slow-cases", settings.slow_cases)):
        if value < 1:
            raise Mistake(f"{name} is {value}; it must be 1 or more.")
    wanted, console, rows, bad = chosen(settings.formats), screen(), [], 0
    out = csv_path(settings.csv, "bench-fuzz")
    with tempfile.TemporaryDirectory() as place:
        say(console, "Writing whole files of every format.")
        write_all(Path(place) / "files", exported=any(one.exported for one in wanted))
        for one in wanted:
            cases = settings.slow_cases if one.name.startswith("command: ") else settings.cases
            found = run_format(Path(place) / "files", one.name, cases, settings.seed)
            rows.append({"format": one.name, "cases": cases, **counts_of(found, cases)})
            say(console, ", ".join(f"{name} {value}" for name, value in rows[-1].items() if name != "format" or value))
            for example in found["examples"]:
                say(console, f"    {example}", "red")
            bad += rows[-1]["others"]
            write_rows(out, [row | {"seed": settings.seed} for row in rows])
    say(
        console,
        f"{sum(row['cases'] for row in rows):,} cases of {count(len(rows), 'format')}. The CSV is {out.resolve()}",
    )
    if bad:
        raise Stopped(f"{count(bad, 'case')} ended in neither a sentence nor a right answer; see above.")


def chosen(names: tuple[str, ...]) -> list[Any]:
    """Return the formats that begin with these names; all without any."""
    from benchmarks.fuzz.formats import FORMATS

    wanted = [one for one in FORMATS if not names or one.name.startswith(names)]
    if not wanted:
        raise Mistake(f"--formats is {' '.join(names)!r}; begin one of: {'; '.join(one.name for one in FORMATS)}.")
    return wanted


def run_format(originals: Path, name: str, cases: int, seed: int) -> dict[str, Any]:
    """Return what came of the cases of a format, tried in a process of its own."""
    job = json.dumps({"originals": str(originals), "name": name, "cases": cases, "seed": seed})
    command = [sys.executable, "-m", "benchmarks.fuzz.worker", job]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS)
    try:
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        said = " ".join(done.stderr.split())[-300:]
        return {"outcomes": {}, "examples": [f"its process ended with code {done.returncode}: {said}"]}


def counts_of(found: dict[str, Any], cases: int) -> dict[str, int]:
    """Return the counts by column; cases of a process that crashed are others."""
    counts = {name: int(found["outcomes"].get(name, 0)) for name in COLUMNS[2:]}
    return counts | {"others": counts["others"] + cases - sum(counts.values())}
