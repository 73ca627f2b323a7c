"""Which bytes the files of a folder have: `digests.json`, the SHA-256 of each by its path below it, and of them all.

Whoever opens a file compares: one that is damaged, or was exchanged, is refused by name instead of read. A file is
replaced in an order that a kill may interrupt anywhere:

    1  the new bytes are written beside
    2  the record gets the new digest beside the old one, or ones, after a kill
    3  the new bytes take the place
    4  the new digest alone stays

Between 2 and 4 the file may be the old or the new one, and both are whole. One process at a time may write into a
folder; any number may read meanwhile.

Memory: what a file holds, if it is read; a small part of it, if it is only checked. Time: SHA-256, a second a gigabyte.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from .errors import Mistake
from .files import write_json, write_whole

RECORD = "digests.json"
HEXADECIMAL = 64  # digits of a SHA-256
MOST_BYTES = 2**24  # of a record: more was written by nobody
Taken = TypeVar("Taken")
Record = dict[str, list[str]]


@dataclass(frozen=True)
class Digests:
    """The digests of the files of a folder."""

    folder: Path
    remedy: str = "bring back a copy of the folder, or make it anew"

    @property
    def file(self) -> Path:
        """The record."""
        return self.folder / RECORD

    def write(self, file: Path, fill: Callable[[Path], object]) -> None:
        """Let `fill` write a file below the folder, which takes its place at once, and record its digest."""
        name = file.relative_to(self.folder).as_posix()
        written = ""

        def filled(place: Path) -> None:
            nonlocal written
            fill(place)
            written = sha256_of(place)
            record = self.record() or {}
            self._store(record | {name: list(dict.fromkeys([*record.get(name, []), written]))})

        write_whole(file, filled)
        self._store((self.record() or {}) | {name: [written]})

    def read(self, file: Path) -> bytes:
        """Return what a file holds, or refuse it; it is FileNotFoundError if there is none."""

        def take() -> tuple[bytes, str]:
            stored = file.read_bytes()
            return stored, hashlib.sha256(stored).hexdigest()

        return self._check(file, take)

    def check(self, file: Path) -> str:
        """Return the digest of a file, or refuse it; it is FileNotFoundError if there is none."""

        def take() -> tuple[str, str]:
            digest = sha256_of(file)
            return digest, digest

        return self._check(file, take)

    def has_record(self) -> bool:
        """Return whether there is a record."""
        return self.file.exists()

    def record(self) -> Record | None:
        """Return the digests by name; None if there is no record."""
        try:
            with self.file.open("rb") as opened:
                text = opened.read(MOST_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Mistake(f"{self.file} cannot be read ({error.strerror}); {self.remedy}.") from None
        try:
            stored = json.loads(text.decode("ascii"))
            found, whole = stored["sha256"], stored["of_these"]
        except (KeyError, RecursionError, TypeError, ValueError):
            found, whole = None, None
        if not isinstance(found, dict) or not is_record(found) or whole != digest_of(found):
            raise Mistake(f"{self.file} is damaged; {self.remedy}.")
        return found

    def _store(self, record: Record) -> None:
        write_json(self.file, {"sha256": dict(sorted(record.items())), "of_these": digest_of(record)})

    def _check(self, file: Path, take: Callable[[], tuple[Taken, str]]) -> Taken:
        """Return what is taken of a file, if it has a recorded digest; it may be replaced meanwhile."""
        name = file.relative_to(self.folder).as_posix()
        while True:
            before = self.record()
            taken, digest = take()
            after = self.record()
            if before is after is None:  # of an earlier version, which wrote none
                return taken
            allowed = [*(before or {}).get(name, []), *(after or {}).get(name, [])]
            if digest in allowed:
                return taken
            if before == after:
                what = "is not as it was written" if allowed else f"is not in {RECORD} beside it"
                raise Mistake(f"{file} {what}; {self.remedy}.")


def is_record(found: dict[str, Any]) -> bool:
    """Return whether a table of JSON holds digests by name."""
    return all(
        isinstance(digests, list) and all(isinstance(one, str) and len(one) == HEXADECIMAL for one in digests)
        for digests in found.values()
    )


def digest_of(record: Record) -> str:
    """Return the digest of a record, so that its own damage is seen."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
