"""Qdrant's client, of a server or of a folder.

The client's local mode keeps points in a folder, as pickles. It may read them only after we have seen that they name
nothing but points, so that a folder from elsewhere runs no programs.

Memory: a point at a time; then what the client keeps.
"""

import contextlib
import pickle
import re
import sqlite3
import warnings
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shadowmetric.mistakes import Mistake
from shadowmetric.serving.store_address import QdrantPlace, one_line

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

PATIENCE = 60  # seconds until a server must have answered


def opened(place: QdrantPlace, make: bool) -> "QdrantClient":
    """Return a client of a server or of a folder."""
    from qdrant_client import QdrantClient

    if place.folder is None:
        with warnings.catch_warnings():
            if re.match(r"http://(localhost|127\.|\[::1\])", place.url or ""):
                warnings.filterwarnings("ignore", "Api key is used with an insecure connection")
            return QdrantClient(place.url, api_key=place.key, timeout=PATIENCE, check_compatibility=False)
    if not make and not (place.folder / "meta.json").is_file():
        raise missing(place.shown)
    try:
        for stored in sorted(place.folder.glob("collection/*/storage.sqlite")):
            check_points(stored)
        return QdrantClient(path=str(place.folder), force_disable_check_same_thread=True)
    except Mistake:
        raise
    except (OSError, RuntimeError, ValueError, KeyError, TypeError, AttributeError, sqlite3.Error) as wrong:
        raise Mistake(f"{place.shown} cannot be opened ({one_line(wrong)}); name another folder.") from None


class Points(pickle.Unpickler):
    """Reads nothing but points."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse what is no part of a point."""
        if module == "qdrant_client.http.models.models" and name in ("PointStruct", "SparseVector"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def check_points(stored: Path) -> None:
    """Refuse a file of local mode that holds anything but points, before the client runs what it finds in it."""
    with contextlib.closing(sqlite3.connect(f"{stored.resolve().as_uri()}?mode=ro", uri=True)) as storage:
        try:
            for (point,) in storage.execute("SELECT point FROM points"):
                Points(BytesIO(point)).load()
        except Exception as wrong:  # whatever damaged or hostile bytes do
            raise Mistake(f"{stored} holds what is no point ({one_line(wrong)}); do not use this folder.") from None


def missing(shown: str) -> Mistake:
    """Return the refusal of a collection that is not there."""
    return Mistake(f"{shown} is not there; fill it by `shadowmetric index RUN FOLDER --to …`.")
