"""What an index knows of an image, and of the model that embedded it.

An image's key is 32 hexadecimal digits made from its path below the indexed folder: the same in a file, in Qdrant and
in PostgreSQL, and in the addresses of the server.
"""

import hashlib
import os
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from .catalog import CatalogThreshold, catalog_threshold_from
from .errors import Mistake
from .shape import Shape


class Entry(NamedTuple):
    """An image in an index."""

    key: str
    path: str  # below the indexed folder, with forward slashes
    label: str | None  # its class


class Hit(NamedTuple):
    """An image that was found, and the cosine between its embedding and the query's."""

    entry: Entry
    similarity: float


def key_of(path: str) -> str:
    """Return the key of a path."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:32]


@dataclass(frozen=True)
class About:
    """What belongs to all rows of an index: which model made them, from which folder."""

    dim: int
    fingerprint: str  # of the model's weights: rows of two models must not be compared
    shape: Shape  # of the pixels that the model takes
    model: tuple[str, ...]  # places of the run or the .onnx file: beside the index, and absolute
    root: str  # the folder that paths are below
    trained: dict[str, str] = field(default_factory=dict)  # how, in words for people
    digest: str = ""  # of the very file that embeds or embedded: a run's own weights have their fingerprint
    catalog: CatalogThreshold | None = None  # from where on an image shows nothing that is there

    def plain(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self) | {"model": list(self.model)}


def same_rows(one: About, other: About) -> bool:
    """Return whether two models give the same rows: one file, or a run's own weights and a file made of them."""
    if (one.fingerprint, one.dim, one.shape) != (other.fingerprint, other.dim, other.shape):
        return False
    digests = {about.digest or about.fingerprint for about in (one, other)}
    return len(digests) == 1 or one.fingerprint in digests


def about_from(payload: Any, where: str) -> About:
    """Return what JSON says of an index; `where` it was found stands in the refusal."""
    try:
        shape = Shape(*(int(payload["shape"][name]) for name in ("size", "resize", "channels")))
        trained = {str(name): str(value) for name, value in payload["trained"].items()}
        places = tuple(str(place) for place in payload["model"])
        about = About(int(payload["dim"]), str(payload["fingerprint"]), shape, places, str(payload["root"]), trained)
        about = replace(about, digest=str(payload["digest"]), catalog=catalog_threshold_from(payload["catalog"]))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise Mistake(f"{where} does not say which model it is of ({error!r}); index the images again.") from None
    if about.dim < 1:
        raise Mistake(f"{where} has rows of {about.dim} numbers; index the images again.")
    return about
