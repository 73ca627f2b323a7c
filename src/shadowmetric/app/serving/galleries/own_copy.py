"""A copy of a file that nobody else can change.

Bytes that are mapped from a file change when somebody overwrites it in place, and the process that reads them is killed
(SIGBUS) when somebody cuts it short. A server that runs for weeks searches a copy without a name instead.

The copy lies in the file's own folder, which has had the room before, or else in the system's folder for temporary
files (TMPDIR), which may be memory. The room is given back when nobody has the copy any more, by a kill too.

Cost: the file's size on disk, twice while a new file takes the old one's place, and the time to copy it. In memory are
pages that the system takes back when it needs them, as with the file itself.
"""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import BinaryIO, cast

from shadowmetric.errors import Mistake

AT_ONCE = 2**22  # bytes that are copied at once


def own_copy(path: Path, file: BinaryIO) -> BinaryIO:
    """Return an open copy, without a name, of an open file; `path` is where it lies."""
    reasons = []
    for folder in dict.fromkeys((path.resolve().parent, Path(tempfile.gettempdir()))):
        try:
            return copy_file(file, folder)
        except OSError as error:  # a folder that may not be written to, a full disk
            reasons.append(f"{folder}: {error.strerror}")
    size = os.fstat(file.fileno()).st_size
    raise Mistake(
        f"there is no room for a copy of {path}, {size / 1e6:,.1f} MB, to be served ({'; '.join(reasons)}); "
        "make room, or name another folder in TMPDIR."
    )


def copy_file(file: BinaryIO, folder: Path) -> BinaryIO:
    """Return a copy of an open file on the disk of a folder."""
    with contextlib.ExitStack() as until_whole:
        copy = until_whole.enter_context(tempfile.TemporaryFile(dir=folder, prefix=".shadowmetric-"))
        file.seek(0)
        shutil.copyfileobj(file, copy, AT_ONCE)
        copy.seek(0)  # which writes what is left
        until_whole.pop_all()
    return cast(BinaryIO, copy)
