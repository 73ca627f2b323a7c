"""Members of an archive on their way into a folder: what each may be called, how large all may be, where links lead.

Files are written before any link is made, so nothing is ever written through a link.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from shadowmetric.errors import DataMistake
from shadowmetric.progress import Report

BLOCK = 2**20


@dataclass(frozen=True)
class Limits:
    """What an archive may hold at the most."""

    members: int = 5_000_000
    total_bytes: int = 200 * 10**9
    growth: int = 1000  # unpacked bytes for each packed one
    free_bytes: int = 10 * 2**20  # that may have grown out of any number


@dataclass
class Unpacking:
    """An archive on its way into a folder."""

    archive: Path
    into: Path
    limits: Limits
    report: Report
    members: int = 0
    files: int = 0
    written: int = 0  # bytes
    links: dict[Path, str] = field(default_factory=dict)

    def refuse(self, what: str) -> DataMistake:
        """Return the sentence for an archive that is refused."""
        return DataMistake(f"{self.archive} {what}, so nothing of it was unpacked; get the official archive.")

    def place(self, name: str) -> Path:
        """Return where a member goes, or refuse its name; count it."""
        self.members += 1
        if self.members > self.limits.members:
            raise self.refuse(f"has more than {self.limits.members:,} members")
        parts = PurePosixPath(name).parts
        if "\0" in name or "\\" in name or (name[1:2] == ":" and name[0].isalpha()):
            raise self.refuse(f"has a member with the name {name!r}")
        if name.startswith("/") or ".." in parts:
            raise self.refuse(f"has the member {name!r}, which leads out of its folder")
        return self.into.joinpath(*parts)

    def write(self, name: str, read: Callable[[int], bytes], size: int, packed: Callable[[], int]) -> None:
        """Write one file; `read` gives its next bytes, `packed` tells how many packed ones were used so far."""
        path = self.place(name)
        if self.written + size > self.limits.total_bytes:
            raise self.refuse(f"unpacks to more than {self.limits.total_bytes:,} bytes")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("xb") as out:
                while block := read(BLOCK):
                    self.count(len(block), packed())
                    out.write(block)
        except FileExistsError:
            raise self.refuse(f"has the member {name!r} twice") from None
        self.files += 1

    def count(self, size: int, packed: int) -> None:
        """Count bytes that come out, and refuse what grows beyond all reason."""
        self.written += size
        if self.written > self.limits.total_bytes:
            raise self.refuse(f"unpacks to more than {self.limits.total_bytes:,} bytes")
        if self.written > self.limits.free_bytes + self.limits.growth * packed:
            raise self.refuse(f"grows more than {self.limits.growth:,}-fold when it is unpacked")

    def make_folder(self, name: str) -> None:
        """Make a folder, unless it is there."""
        self.place(name).mkdir(parents=True, exist_ok=True)

    def copy(self, name: str, other: str, packed: Callable[[], int]) -> None:
        """Write what a hard link stands for: a copy of a file that was unpacked before."""
        source = self.place(other)
        if not source.is_file():
            raise self.refuse(f"has the link {name!r} to {other!r}, which is no file in it")
        with source.open("rb") as file:
            self.write(name, file.read, source.stat().st_size, packed)

    def later(self, name: str, target: str) -> None:
        """Remember a symbolic link; those are made last."""
        path = self.place(name)
        inside = os.path.normpath(path.parent / target)
        if target.startswith("/") or "\\" in target or not Path(inside).is_relative_to(self.into):
            raise self.refuse(f"has the link {name!r} to {target!r}, which leads out of its folder")
        self.links[path] = target

    def make_links(self) -> None:
        """Make the symbolic links, then look where they really lead."""
        for path in self.links:  # before there is any link that a folder could be made through
            path.parent.mkdir(parents=True, exist_ok=True)
        for path, target in self.links.items():
            if os.path.lexists(path) or path.parent.resolve() != path.parent:
                raise self.refuse(f"has a link {path.relative_to(self.into).as_posix()!r} where something else is")
            path.symlink_to(target)
        for path, target in self.links.items():
            if not Path(os.path.realpath(path)).is_relative_to(self.into):
                raise self.refuse(f"has a link to {target!r} that leads out of its folder")
