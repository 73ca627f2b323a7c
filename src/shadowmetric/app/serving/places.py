"""Places that work is written to, and read from, refused before the work if they will not do."""

import os
import tempfile
from pathlib import Path

from shadowmetric.errors import Mistake


def check_writable(folder: Path, remedy: str) -> None:
    """Refuse a folder that nothing can be written into: a nameless file is tried there, or where it would be made."""
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    try:
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        raise Mistake(f"the folder {folder} cannot be written to ({error.strerror}); {remedy}.") from None


def check_run(place: Path, why: str = "") -> None:
    """Refuse a file in place of a run; `why` the run itself is needed."""
    if place.is_file():
        raise Mistake(f"{place} is a file; give the folder of a run, which `shadowmetric train` wrote{why}.")
