"""`shadowmetric data list / check / add`: which datasets there are, whether a copy is whole, and how to get one."""

import dataclasses
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from shadowmetric.app.data.dataset import Reader
from shadowmetric.app.data.manage.adding import Added, add_archives, check_space, counts_of
from shadowmetric.errors import DataMistake, Mistake
from shadowmetric.progress import watch

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Root = Annotated[Path | None, Parameter(show_default=False)]

WRONG, FOUND = 1, 3  # exit codes of a check
DOWNLOAD_BYTES = 10**9  # what a download may take for a while

app = App(name="data", help="Which datasets there are, whether a copy of one is whole, and how to add one.")


@app.command(name="list")
def list_datasets(*, data_root: Root = None, json: Flag = False) -> None:
    """Show every dataset by name, and whether it is below the data root.

    Parameters
    ----------
    data_root
        Folder of the datasets. Default: $SHADOWMETRIC_DATA, else ./data.
    json
        Print JSON instead of tables.
    """
    from shadowmetric.app.cli.screen import screen
    from shadowmetric.app.cli.tables.data import as_rows, print_list
    from shadowmetric.app.data.root import data_root as found_root

    root = found_root(data_root)
    if json:
        print_json({"data_root": str(root), "datasets": as_rows(root)})
    else:
        print_list(screen(), root)


@app.command
def check(
    name: str, /, *, data_root: Root = None, allow_partial: Flag = False, quick: Flag = False, json: Flag = False
) -> None:
    """Look whether a copy is whole: counts, overlap of the parts, images that cannot be read or are there twice.

    The exit code is 0 if nothing is, 1 if the copy is wrong (counts, unreadable images, parts that overlap), 2 if it
    cannot be looked at, and 3 if it is whole but something was found: test images that train too, images with two
    classes, links, empty class folders and images outside of any, which are not read.

    Parameters
    ----------
    name
        A dataset's name, or folder:PATH, csv:FILE, npz:FILE.
    data_root
        Folder of the datasets. Default: $SHADOWMETRIC_DATA, else ./data.
    allow_partial
        Other counts than the official ones are not wrong.
    quick
        Count only, without decoding the images.
    json
        Print JSON instead of tables.
    """
    from shadowmetric.app.cli.screen import screen
    from shadowmetric.app.cli.tables.data import print_inspection
    from shadowmetric.app.data.catalogue import find_reader, is_own, open_dataset
    from shadowmetric.app.data.manage.inspection import inspect

    with mistakes(), watch() as bar:
        reader = None if is_own(name) else find_reader(name)
        inspection = inspect(open_dataset(name, data_root, allow_partial=True), reader, quick=quick, report=bar)
    faults, findings = inspection.faults(allow_partial), inspection.findings()
    if json:
        print_json(dataclasses.asdict(inspection) | {"faults": faults, "findings": findings})
    else:
        print_inspection(screen(), inspection, faults)
    sys.exit(WRONG if faults else FOUND if findings else 0)


@app.command
def add(name: str, /, *archives: Path, data_root: Root = None, allow_partial: Flag = False) -> None:
    """Put a dataset below the data root: from its official archives, or by downloading it if that is possible.

    It is unpacked with care, read and counted, and only then put in its place.

    Parameters
    ----------
    name
        The dataset's name; see `shadowmetric data list`.
    archives
        .tar, .tar.gz, .tgz, .tar.xz or .zip, and other files that belong to it.
    data_root
        Folder of the datasets. Default: $SHADOWMETRIC_DATA, else ./data.
    allow_partial
        Accept other counts than the official ones.
    """
    from shadowmetric.app.cli.screen import screen
    from shadowmetric.app.cli.tables.data import print_added
    from shadowmetric.app.data.catalogue import find_reader
    from shadowmetric.app.data.root import data_root as found_root

    root = found_root(data_root)
    with mistakes():
        reader = find_reader(name)
        if not reader.folder:
            raise Mistake(f"{reader.name} is part of this package; there is nothing to add.")
        try:
            added = add_from(reader, archives, root, allow_partial)
        except KeyboardInterrupt:
            print("Stopped; nothing was added.", file=sys.stderr)
            sys.exit(130)
    print_added(screen(), reader, root, added)


def add_from(reader: Reader, archives: tuple[Path, ...], root: Path, allow_partial: bool) -> Added:
    """Return what was added from archives, or from a download if none are named."""
    if archives:
        with watch() as bar:
            return add_archives(reader, archives, root, allow_partial=allow_partial, report=bar)
    if reader.download is None:
        raise reader.missing(root, "an archive to add")
    check_space(root, DOWNLOAD_BYTES)
    reader.download(root)
    dataset = reader.read(root, allow_partial)
    return Added(counts_of(dataset), {}, dataset.notes)


@contextmanager
def mistakes() -> Iterator[None]:
    """Turn what is wrong with data into what the user is told."""
    try:
        yield
    except DataMistake as error:
        raise Mistake(str(error)) from None


def print_json(payload: dict) -> None:
    """Print JSON as it is, whatever the width."""
    from shadowmetric.app.cli.screen import screen

    screen().out(json.dumps(payload, indent=2), highlight=False)
