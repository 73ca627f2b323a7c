"""Files that are whole or not there: written beside their place, flushed to disk, and then moved into it.

A kill at any moment leaves the old file or the new one.
"""

import contextlib
import glob
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

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
    except OSError as wrong:  # a full disk does not say of which file, and nobody knows the one beside
        if wrong.errno is not None and wrong.filename in (None, str(beside)):
            wrong.filename = str(path)
        raise
    finally:
        beside.unlink(missing_ok=True)


def remove_abandoned(path: Path) -> None:
    """Remove what writers of a file left that were killed, and nothing of one that may still write."""
    for left in path.parent.glob(f".{glob.escape(path.name)}." + 2 * RANDOM_BYTES * "[0-9a-f]"):
        with contextlib.suppress(FileNotFoundError):  # another writer was quicker
            if time.time() - left.stat().st_mtime > ABANDONED:
                left.unlink()
