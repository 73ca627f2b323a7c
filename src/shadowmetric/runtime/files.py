"""Files that are whole or not there: written beside their place, flushed to disk, and then moved into it.

A kill at any moment leaves the old file or the new one, and beside it a folder that the next writer removes
(`unfinished.py`). `write_text`, `write_json` and `write_rows` do this with a text, with plain Python and with a table.
"""

import csv
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .unfinished import folder_beside


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file that takes its place at once."""
    try:
        with folder_beside(path) as folder:
            new = folder / f"new-{path.name}"
            write(new)
            with new.open("rb+") as file:
                os.fsync(file.fileno())
            os.replace(new, path)
    except OSError as error:  # a full disk does not say of which file, and nobody knows the one beside
        if error.errno is not None and is_of(path, error):
            error.filename, error.filename2 = str(path), None
        raise


def is_of(path: Path, error: OSError) -> bool:
    """Return whether an error is of the unfinished file of a path, read or written, or of none that it names."""
    beside = str(path.with_name(f".{path.name}."))
    return error.filename is None or any(str(one).startswith(beside) for one in (error.filename, error.filename2))


def write_text(path: Path, text: str) -> None:
    """Write a text."""
    write_whole(path, lambda place: place.write_text(text, encoding="utf-8"))


def write_json(path: Path, payload: Any) -> None:
    """Write plain Python as JSON; NaN has no JSON and becomes null."""
    write_text(path, json.dumps(without_nan(payload), indent=2, allow_nan=False) + "\n")


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


def without_nan(payload: Any) -> Any:
    """Return the same with None for numbers that are not finite."""
    if isinstance(payload, dict):
        return {name: without_nan(value) for name, value in payload.items()}
    if isinstance(payload, list | tuple):
        return [without_nan(value) for value in payload]
    if isinstance(payload, float) and not float("-inf") < payload < float("inf"):
        return None
    return payload
