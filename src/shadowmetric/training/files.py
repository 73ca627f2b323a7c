"""Texts, JSON and tables in files that are whole or not there, as `runtime/files.py` writes them."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shadowmetric.runtime.files import write_whole as write_whole


def write_text(path: Path, text: str) -> None:
    """Write a text."""
    write_whole(path, lambda place: place.write_text(text, encoding="utf-8"))


def write_json(path: Path, found: Any) -> None:
    """Write plain Python as JSON; NaN has no JSON and becomes null."""
    write_text(path, json.dumps(without_nan(found), indent=2, allow_nan=False) + "\n")


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as CSV; the first one names the columns."""
    text = io.StringIO()
    table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write_text(path, text.getvalue())


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def without_nan(found: Any) -> Any:
    """Return the same with None for numbers that are not finite."""
    if isinstance(found, dict):
        return {name: without_nan(value) for name, value in found.items()}
    if isinstance(found, list | tuple):
        return [without_nan(value) for value in found]
    if isinstance(found, float) and not float("-inf") < found < float("inf"):
        return None
    return found
