"""The record of heads: JSON lines, a first one with facts, then one for each training as soon as it is finished.

    {"facts": {...}}
    {"group": ..., "name": ..., "seed": ..., "trial": {...}, "figures": {...}, "curve": [...], "seconds": ...}

So the record is what later work goes on from, from a clone too: a training that is in it is not done again. A last line
that a kill has cut is left out, and done again.

Memory: the lines.
"""

import json
from pathlib import Path
from typing import Any

from paper.record import Record
from shadowmetric.app.compare.cells import ensure_folder
from shadowmetric.errors import Mistake
from shadowmetric.runtime.files import write_text

DIGITS = 6
Line = dict[str, Any]


class Store:
    """Facts and trainings in a file."""

    def __init__(self, file: Path, facts: dict[str, Any] | None = None):
        self.file = file
        self.lines: list[Line] = []
        if file.exists():
            self.facts, self.lines = read_lines(file)
        else:
            self.facts = facts or {}
        self.known = {key_of(line): line for line in self.lines}

    def get(self, group: str, trial: dict[str, Any], seed: int) -> Line | None:
        """Return the line of a training, if it is finished."""
        return self.known.get(key_of({"group": group, "trial": trial, "seed": seed}))

    def add(self, line: Line) -> Line:
        """Append a training; return it as it was written."""
        line = rounded(line)
        self.lines.append(line)
        self.known[key_of(line)] = line
        ensure_folder(self.file.parent)
        if len(self.lines) == 1:
            write_text(self.file, json.dumps({"facts": self.facts}) + "\n")
        with self.file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
        return line

    def record(self, group: str) -> Record:
        """Return the trainings of a group as the record of a bed."""
        lines = [line for line in self.lines if line["group"] == group]
        runs = [
            {"name": line["name"], "kind": line["kind"], "seed": line["seed"], "journal": []}
            | {"figures": line["figures"] | ({"epochs": len(line["curve"])} if line["curve"] else {})}
            for line in lines
        ]
        return Record(self.facts | {"scale": "small", "settings": lines[-1]["trial"] if lines else {}}, runs, {})

    def hours(self, group: str | None = None) -> float:
        """Return the hours of a core that the trainings took."""
        return sum(line["seconds"] for line in self.lines if group in (None, line["group"])) / 3600


def read_lines(file: Path) -> tuple[dict[str, Any], list[Line]]:
    """Return the facts and the trainings of a record; mend a last line that was cut."""
    text = file.read_text(encoding="utf-8")
    whole, cut, rest = text.rpartition("\n")
    if rest:
        write_text(file, whole + cut)
    try:
        documents = [json.loads(line) for line in whole.splitlines() if line]
        return documents[0]["facts"], documents[1:]
    except (ValueError, KeyError, IndexError) as error:
        raise Mistake(f"{file} is no record of heads ({' '.join(str(error).split())}).") from None


def key_of(line: Line) -> str:
    """Return what tells a training from all others."""
    return json.dumps([line["group"], line["trial"], line["seed"]], sort_keys=True)


def rounded(value: Any) -> Any:
    """Return numbers with six digits, in lists and dictionaries too."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value
