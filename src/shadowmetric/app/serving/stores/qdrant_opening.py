"""Qdrant's client, of a server or of a folder.

The client's local mode keeps points in a folder, as pickles. It reads them by our `Points`, which knows nothing but
points, so that a folder from elsewhere runs no programs.

Memory: what the client keeps.
"""

import importlib
import pickle
import re
import types
import warnings
from io import BytesIO
from typing import TYPE_CHECKING, Any

from shadowmetric.app.serving.stores.address import QdrantPlace, one_line
from shadowmetric.errors import Mistake

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

PATIENCE = 60  # seconds until a server must have answered


def connect_qdrant(place: QdrantPlace, make: bool) -> "QdrantClient":
    """Return a client of a server or of a folder."""
    from qdrant_client import QdrantClient

    if place.folder is None:
        with warnings.catch_warnings():
            if re.match(r"http://(localhost|127\.|\[::1\])", place.url or ""):
                warnings.filterwarnings("ignore", "Api key is used with an insecure connection")
            return QdrantClient(place.url, api_key=place.key, timeout=PATIENCE, check_compatibility=False)
    if not make and not (place.folder / "meta.json").is_file():
        raise missing(place.shown)
    guard(place.shown)
    try:
        return QdrantClient(path=str(place.folder), force_disable_check_same_thread=True)
    except pickle.UnpicklingError as error:
        raise Mistake(f"{place.folder} holds what is no point ({one_line(error)}); do not use this folder.") from None
    except Exception as error:  # whatever the client does with damaged or hostile files
        raise Mistake(f"{place.shown} cannot be opened ({one_line(error)}); name another folder.") from None


class Points(pickle.Unpickler):
    """Reads nothing but points."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse what is no part of a point."""
        if module == "qdrant_client.http.models.models" and name in ("PointStruct", "SparseVector"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def point_of(stored: bytes) -> Any:
    """Return a point that local mode stored; refuse everything else."""
    try:
        return Points(BytesIO(stored)).load()
    except Exception as error:  # whatever damaged or hostile bytes do
        raise pickle.UnpicklingError(one_line(error)) from None


def guard(place: str) -> None:
    """Let the client read points by `point_of` from now on; refuse a client where that is not possible.

    A look at the files beforehand would not do: the client finds them by names in meta.json, a/b too, and SQLite may
    give other bytes the second time (a view with random()). So the very bytes that the client reads are checked. A
    client that uses more of pickle than these two functions finds it missing, and fails.
    """
    try:
        persistence = importlib.import_module("qdrant_client.local.persistence")
        _ = persistence.pickle
    except (ImportError, AttributeError):
        raise Mistake(
            f"{place} cannot be opened safely by this version of qdrant-client; install version 1.20, or use a server."
        ) from None
    vars(persistence)["pickle"] = types.SimpleNamespace(dumps=pickle.dumps, loads=point_of)


def missing(place: str) -> Mistake:
    """Return the refusal of a collection that is not there."""
    return Mistake(f"{place} is not there; fill it by `shadowmetric index RUN FOLDER --to …`.")
