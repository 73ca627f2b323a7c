"""An image as a point of Qdrant, and back: its id, its payload, and what a point that others wrote may not claim.

Qdrant's client is imported where its types are made, since it is an extra.
"""

import re
import uuid
from typing import TYPE_CHECKING

import numpy as np

from shadowmetric.app.serving.stores.address import from_stored, to_stored
from shadowmetric.app.serving.stores.proposed import Proposed
from shadowmetric.runtime.entries import Entry, key_of

if TYPE_CHECKING:
    from qdrant_client import models

DIGEST = re.compile(r"[0-9a-f]{64}")


def matching(field: str, values: list[str]) -> "models.Filter":
    """Return the condition that a field has one of these values."""
    from qdrant_client import models

    return models.Filter(must=[models.FieldCondition(key=field, match=models.MatchAny(any=values))])


def select_points(keys: list[str]) -> "models.PointIdsList":
    """Return the points of these keys, as writing wants them."""
    from qdrant_client import models

    return models.PointIdsList(points=[str(uuid.UUID(key)) for key in keys])


def to_candidate(point: "models.ScoredPoint") -> Proposed:
    """Return a point that was found."""
    return Proposed(entry_of(point), point.vector, float(point.score))  # pyright: ignore[reportArgumentType]


def entry_of(point: "models.Record | models.ScoredPoint") -> Entry | None:
    """Return what a point says of an image; None if it is not ours."""
    payload = point.payload or {}
    path, label = payload.get("path"), payload.get("label")
    if not isinstance(path, str) or not isinstance(label, str | None):
        return None
    try:
        key = key_of(from_stored(path))
    except UnicodeEncodeError:  # no path of this world
        return None
    entry = Entry(key, from_stored(path), None if label is None else from_stored(label))
    return entry if str(point.id) == str(uuid.UUID(key)) else None


def digest_of(point: "models.Record") -> bytes | None:
    """Return the SHA-256 that a point says, if it says one."""
    digest = (point.payload or {}).get("digest")
    return bytes.fromhex(digest) if isinstance(digest, str) and DIGEST.fullmatch(digest) else None


def payload_of(path: str, label: str | None, digest: bytes) -> dict[str, str | None]:
    """Return what a point says of an image."""
    return {"path": to_stored(path), "label": None if label is None else to_stored(label), "digest": digest.hex()}


def id_of(path: str) -> str:
    """Return the id of an image's point."""
    return str(uuid.UUID(key_of(path)))


def round_to_half(row: np.ndarray) -> list[float]:
    """Return a row as float16 has it."""
    return row.astype(np.float16).tolist()
