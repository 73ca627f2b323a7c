"""Put a dataset below the data root as a whole or not at all.

It is made in a new folder inside the data root, so on the same disk, and moved to its place by one rename. An error or
a Ctrl-C before that leaves nothing behind. A process that is killed outright leaves a folder `.new.…`, which the next
one that adds anything to this root removes.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shadowmetric.errors import DataMistake
from shadowmetric.runtime.unfinished import folder_beside


@contextmanager
def stage_data_root(root: Path, folder: str) -> Iterator[Path]:
    """Yield an empty data root; when the block ends well, move the folder made in it to the true root."""
    target = root / folder
    if target.exists():
        raise DataMistake(f"{target} is there already; look at it with `data check`, or remove it first.")
    is_new = not root.exists()
    try:
        with folder_beside(root / "new") as fresh:
            yield fresh
            target.parent.mkdir(parents=True, exist_ok=True)
            (fresh / folder).rename(target)
    except OSError as error:
        raise DataMistake(f"{target} could not be made: {error.strerror or error}; look at --data-root.") from None
    finally:
        if is_new:
            with suppress(OSError):  # something is in it
                root.rmdir()
