"""A folder beside the place of what is being made, which only a kill can leave there; and how that is cleared away.

    .NAME.<6 digits of this machine><10 random ones>    beside NAME

Whoever makes something holds the system's lock of its folder (flock), which the system takes back from a process
however it ends. Whoever makes the next thing of that name first removes the folders that nobody holds. Those of other
machines, which may not see each other's locks, and all where the system knows no such locks, are removed when nothing
in them has changed for a day.
"""

import contextlib
import glob
import hashlib
import os
import platform
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

MACHINE = hashlib.sha256(platform.node().encode()).hexdigest()[:6]
RANDOM_BYTES = 5
TEMPORARY = "shadowmetric"  # the name of all folders at the system's place for temporary files
DIGITS = len(MACHINE) + 2 * RANDOM_BYTES
ABANDONED = 24 * 3600.0  # seconds after which a folder whose lock says nothing has no maker any more
LOCKED = -1  # in place of a descriptor: another one holds the lock


@contextlib.contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """Yield a new folder on the disk of `path`, in which it can be made; what is left of it is removed in the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path)
    folder, lock = new_folder(path)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def temporary_folder() -> contextlib.AbstractContextManager[Path]:
    """Yield a new folder at the system's place for temporary files, which the next one clears away after a kill."""
    return folder_beside(Path(tempfile.gettempdir()) / TEMPORARY)


def new_folder(path: Path) -> tuple[Path, int | None]:
    """Return a new folder and the descriptor that holds its lock; None where there are no locks."""
    while True:
        folder = path.with_name(f".{path.name}.{MACHINE}{secrets.token_hex(RANDOM_BYTES)}")
        folder.mkdir(mode=0o700)
        lock = take_lock(folder)
        if lock != LOCKED and folder.exists():  # else somebody who clears away came between
            return folder, lock
        if lock not in (LOCKED, None):
            os.close(lock)


def take_lock(folder: Path) -> int | None:
    """Return a descriptor that holds a folder's lock; LOCKED if another one does, None where there are no locks."""
    try:
        import fcntl
    except ImportError:  # no Unix
        return None
    descriptor = None
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor
    except OSError as error:
        if descriptor is not None:
            os.close(descriptor)
        return LOCKED if isinstance(error, BlockingIOError | FileNotFoundError) else None


def remove_leftovers(path: Path) -> None:
    """Remove what makers of `path` left that were killed, and nothing of one that may still be at work."""
    for left in path.parent.glob(f".{glob.escape(path.name)}." + DIGITS * "[0-9a-f]"):
        with contextlib.suppress(OSError):  # somebody else's, or another was quicker
            remove_if_left(left)


def remove_if_left(folder: Path) -> None:
    """Remove a folder that nobody holds; its lock is held meanwhile, so that nobody takes it for a new one."""
    own = folder.name[-DIGITS:].startswith(MACHINE)
    lock = take_lock(folder) if own else None
    try:
        if lock == LOCKED or (lock is None and time.time() - newest(folder) < ABANDONED):
            return
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        if lock not in (LOCKED, None):
            os.close(lock)


def newest(folder: Path) -> float:
    """Return when something in a folder was changed last."""
    return max(one.lstat().st_mtime for one in (folder, *folder.rglob("*")))
