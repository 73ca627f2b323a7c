"""One process at a time trains a run: it holds the lock of a file in the run's folder, which a kill gives back.

A folder that was removed and made anew by somebody else has another lock file, so the holder sees that it is not its
own any more.
"""

import os

from filelock import FileLock, Timeout

from shadowmetric.app.training.runs.run import Run
from shadowmetric.errors import Mistake, Stopped


class RunLock:
    """The right to train a run."""

    def __init__(self, run: Run):
        self.run = run
        self.lock = FileLock(run.lock_file)
        self.held: tuple[int, int] | None = None  # device and number of the file

    def take(self) -> None:
        """Take the lock, or refuse a run that another process trains."""
        self.run.make_folder()
        try:
            self.lock.acquire(timeout=0)
        except Timeout:  # which is an OSError, too
            raise Mistake(
                f"another process trains the run in {self.run.folder}; wait for its end, or name another --out."
            ) from None
        except OSError as error:
            raise Mistake(
                f"{self.run.folder} cannot be written to ({error.strerror}); make it writable, or name another --out."
            ) from None
        self.held = self.file_now()

    def give_back(self) -> None:
        """Let others train the run."""
        self.lock.release()

    def check(self) -> None:
        """Stop if the folder is gone, or is not the one that was locked."""
        self.run.check_there()
        if self.held is not None and self.file_now() != self.held:
            raise Stopped(
                f"{self.run.folder} was removed while it was trained, and another is in its place; nothing more is "
                "written: train anew with another --out."
            )

    def file_now(self) -> tuple[int, int] | None:
        """Return which file lies at the lock's place."""
        try:
            found = os.stat(self.run.lock_file)
        except OSError:
            return None
        return found.st_dev, found.st_ino
