"""Files that are whole or not there: written beside their place, flushed to disk, and then moved into it.

A kill at any moment leaves the old file or the new one. `write_text`, `write_json` and `write_rows` do this with a
text, with plain Python and with a table.
"""

import contextlib
import csv
import glob
import io
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

RANDOM_BYTES = 8  # in the name of a file that is being written
ABANDONED = 3600.0  # seconds after which a file beside its place has no writer any more


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file that takes its place at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(path)
    beside = path.with_name(
        f".{path.name}.{secrets.token_hex(RANDOM_BYTES)}"
    )  # no other machine's, as a process number may be
    try:
        write(beside)
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:  # a full disk does not say of which file, and nobody knows the one beside
        if error.errno is not None and error.filename in (None, str(beside)):
            error.filename = str(path)
        raise
    finally:
        beside.unlink(missing_ok=True)


def remove_abandoned(path: Path) -> None:
    """Remove what writers of a file left that were killed, and nothing of one that may still write."""
    for left in path.parent.glob(f".{glob.escape(path.name)}." + 2 * RANDOM_BYTES * "[0-9a-f]"):
        with contextlib.suppress(FileNotFoundError):  # another writer was quicker
            if time.time() - left.stat().st_mtime > ABANDONED:
                left.unlink()


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
