"""What the settings of every bench have in common: lists of sizes and names, a time limit, a CSV file."""

import datetime
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from shadowmetric.errors import Mistake

Sizes = Annotated[tuple[int, ...], Parameter(consume_multiple=True, negative="", show_default=False)]
Names = Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="", show_default=False)]
Flag = Annotated[bool, Parameter(negative="")]
File = Annotated[Path | None, Parameter(show_default=False)]


def check_timeout(seconds: float) -> None:
    """Refuse a time limit in which nothing could be measured."""
    if not seconds > 0:
        raise Mistake(f"--timeout is {seconds:g}; it must be above 0 seconds.")


def csv_path(out: Path | None, name: str) -> Path:
    """Return the file that was asked for, or one in this folder with the date in its name."""
    return out or Path(f"{name}-{datetime.datetime.now():%Y%m%d-%H%M%S}.csv")


@contextmanager
def open_csv(out: Path, option: str = "--out"):
    """Open the CSV for writing before anything is measured, or refuse it. option: that named it."""
    try:
        file = out.open("w", newline="", encoding="utf-8")
    except OSError as error:
        raise Mistake(f"{option} {str(out)!r} cannot be written: {error.strerror}; choose another file.") from None
    with file:
        yield file
