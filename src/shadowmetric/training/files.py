"""Texts and JSON in files that are whole or not there, as `device/files.py` writes them."""

import json
from pathlib import Path
from typing import Any

from shadowmetric.device.files import write_whole as write_whole


def write_text(path: Path, text: str) -> None:
    """Write a text."""
    write_whole(path, lambda place: place.write_text(text, encoding="utf-8"))


def write_json(path: Path, found: Any) -> None:
    """Write plain Python as JSON; NaN has no JSON and becomes null."""
    write_text(path, json.dumps(without_nan(found), indent=2, allow_nan=False) + "\n")


def without_nan(found: Any) -> Any:
    """Return the same with None for numbers that are not finite."""
    if isinstance(found, dict):
        return {name: without_nan(value) for name, value in found.items()}
    if isinstance(found, list | tuple):
        return [without_nan(value) for value in found]
    if isinstance(found, float) and not float("-inf") < found < float("inf"):
        return None
    return found
