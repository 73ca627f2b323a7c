"""Unpack an archive that may have been made to do harm: .tar, .tar.gz, .tgz, .tar.xz or .zip.

Refused, each in one sentence: absolute names, names with `..`, a NUL, a backslash or a drive letter; links that lead
out; devices and pipes; a name that comes twice; passwords; too many members, too many bytes, and what grows more
than a thousandfold. What is wrong with one member is decided in `unpacking.py`. If anything is wrong, or the work is
interrupted, nothing is left behind. Memory: one block, and for a zip the list of its members.
"""

import gzip
import lzma
import os
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from shadowmetric.app.data.manage.unpacking import BLOCK, Limits, Unpacking
from shadowmetric.errors import DataMistake
from shadowmetric.progress import Report, silent

TARS, ZIPS = (".tar", ".tar.gz", ".tgz", ".tar.xz"), (".zip",)
LONGEST_LINK = 4096  # bytes of a symbolic link in a zip
DAMAGED = (  # what the libraries make of it
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,
    UnicodeError,  # of a name in a zip
    OverflowError,
)


def is_archive(path: Path) -> bool:
    """Return whether a file is an archive by its name."""
    return path.name.lower().endswith(TARS + ZIPS)


def unpack(archive: Path, into: Path, *, limits: Limits | None = None, report: Report = silent) -> int:
    """Unpack an archive into a folder that is made for it; return how many files came out."""
    into.mkdir()
    work = Unpacking(archive, into.resolve(), limits or Limits(), report)
    try:
        (_unzip if archive.name.lower().endswith(ZIPS) else _untar)(work)
        work.make_links()
    except BaseException as error:
        shutil.rmtree(into)
        if isinstance(error, DAMAGED):
            reason = " ".join(str(error).split()).rstrip(".")
            raise DataMistake(f"{archive} is damaged or cut short ({reason}); get it again.") from None
        if isinstance(error, OSError):
            raise DataMistake(
                f"{archive} could not be unpacked into {into.parent}: {error.strerror or error}."
            ) from None
        raise
    return work.files


def _untar(work: Unpacking) -> None:
    size = max(work.archive.stat().st_size, 1)
    with work.archive.open("rb") as packed, tarfile.open(fileobj=packed) as tar:
        for member in tar:
            work.report("unpack", packed.tell() / size)
            if member.isreg():
                file = tar.extractfile(member)
                assert file is not None
                work.write(member.name, file.read, member.size, packed.tell)
            elif member.isdir():
                work.make_folder(member.name)
            elif member.issym():
                work.later(member.name, member.linkname)
            elif member.islnk():
                work.copy(member.name, member.linkname, packed.tell)
            else:
                raise work.refuse(f"has the member {member.name!r}, which is no file, folder or link")
            tar.members = []  # pyright: ignore[reportAttributeAccessIssue]  # or it remembers every one
        _read_to_the_end(work, tar, packed.tell)


def _read_to_the_end(work: Unpacking, tar: tarfile.TarFile, packed: Callable[[], int]) -> None:
    """Read what follows the last member, so that the checksum is compared: only zeros may follow."""
    assert tar.fileobj is not None
    while block := tar.fileobj.read(BLOCK):
        work.count(len(block), packed())
        if block.strip(b"\0"):
            raise tarfile.ReadError("something other than zeros follows the last member")


def _unzip(work: Unpacking) -> None:
    with zipfile.ZipFile(work.archive) as archive:
        members = archive.infolist()
        if len(members) > work.limits.members:
            raise work.refuse(f"has more than {work.limits.members:,} members")
        for number, member in enumerate(members):
            work.report("unpack", number / len(members))
            _unzip_member(work, archive, member)


def _unzip_member(work: Unpacking, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    name, kind = member.orig_filename, stat.S_IFMT(member.external_attr >> 16)
    if member.flag_bits & 1:
        raise work.refuse(f"has the member {name!r} under a password")
    if member.file_size > work.limits.free_bytes + work.limits.growth * member.compress_size:
        raise work.refuse(f"has the member {name!r}, which grows more than {work.limits.growth:,}-fold")
    if name.endswith("/"):
        work.make_folder(name)
    elif kind == stat.S_IFLNK and member.file_size <= LONGEST_LINK:
        work.later(name, os.fsdecode(archive.read(member)))
    elif kind in (0, stat.S_IFREG):
        packed = work.archive.stat().st_size
        with archive.open(member) as file:
            work.write(name, file.read, member.file_size, lambda: packed)
    else:
        raise work.refuse(f"has the member {name!r}, which is no file, folder or link")
