"""The line of a program that asked torch for something: file and line, without the frames of those in between."""

import sys
from pathlib import Path

ROOTS = ("site-packages", "src", "tests")  # folders that a name starts below
IN_BETWEEN = {"torch", "jaxtyping", "beartype"}


def calling_line(*without: str) -> str:
    """Return package/file.py:line of the innermost frame that is of a program, not of this file or of those named."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name not in (__file__, *without) and not name.startswith("<") and not is_plumbing(Path(name)):
            return f"{short_path(Path(name))}:{frame.f_lineno}"
        frame = frame.f_back
    return "?"


def is_plumbing(path: Path) -> bool:
    """Return whether a file is torch's, checks types, or is the standard library's for context managers."""
    return not IN_BETWEEN.isdisjoint(path.parts) or path.stem == "contextlib"


def short_path(path: Path) -> str:
    """Return the part of a path that says the same on every machine."""
    roots = [place for place, part in enumerate(path.parts[:-1]) if part in ROOTS]
    return "/".join(path.parts[roots[-1] + 1 :]) if roots else path.name
