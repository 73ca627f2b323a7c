"""A gallery with the model that made its rows: what a search asks of both, and what people may filter by.

Classes and the number of images are asked for at most once in ten seconds: in a vector store they cost a query.
"""

import contextlib
import logging
import re
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from shadowmetric.app.serving.galleries.gallery import Gallery
from shadowmetric.app.serving.model import Model
from shadowmetric.app.serving.server.answers import printable
from shadowmetric.app.serving.server.refusals import RETRY, Refused, echo
from shadowmetric.runtime.entries import Entry, Hit

KEY = re.compile("[0-9a-f]{32}")
REMEMBERED_SECONDS = 10.0
log = logging.getLogger("shadowmetric.serve")


class Known(NamedTuple):
    """What is remembered of a gallery."""

    images: int
    classes: dict[str, tuple[str, int]]  # by the name that is shown: the name in the gallery, and how many images


def distinct_class_names(classes: dict[str, int]) -> dict[str, tuple[str, int]]:
    """Return classes by the names that are shown; those that differ in bytes that cannot be shown get a number."""
    by_label: dict[str, tuple[str, int]] = {}
    for name, count in classes.items():
        label, number = printable(name), 1
        while label in by_label:
            number += 1
            label = f"{printable(name)} ({number})"
        by_label[label] = (name, count)
    return by_label


class Searched:
    """A gallery and its model. All methods may be called from several threads."""

    def __init__(self, gallery: Gallery, model: Model):
        self.gallery, self.model = gallery, model
        self.lock = threading.Lock()
        self.remembered: tuple[float, Known] | None = None

    def describe(self) -> Known:
        """Return the number of images, and the classes."""
        with self.lock, answering():
            if self.remembered is None or time.monotonic() - self.remembered[0] > REMEMBERED_SECONDS:
                classes = distinct_class_names(self.gallery.classes())
                self.remembered = (time.monotonic(), Known(len(self.gallery), classes))
            return self.remembered[1]

    def label(self, name: str | None) -> str | None:
        """Return the class that is shown by this name, or refuse it."""
        if name is None:
            return None
        if (record := self.describe().classes.get(name)) is None:
            raise Refused(404, f"no image has the class {echo(name)}; /api/index?contains= finds those there are.")
        return record[0]

    def entry(self, key: str) -> Entry:
        """Return the image with this key, or refuse it."""
        with answering():
            entry = self.gallery.entry(key) if KEY.fullmatch(key) else None
        if entry is None:
            raise unknown_key(key)
        return entry

    def nearest(self, row: np.ndarray, k: int, label: str | None) -> list[Hit]:
        """Return the most similar images of a row, (dim,)."""
        with answering():
            most = min(k, len(self.gallery))
            return self.gallery.nearest(row[None].astype(np.float32), most, label)[0] if most else []

    def beside(self, key: str, k: int, label: str | None) -> list[Hit]:
        """Return the most similar images of one of the gallery, without itself."""
        with answering():
            row = self.gallery.row(key) if KEY.fullmatch(key) else None
        if row is None:
            raise unknown_key(key)
        unit = row / max(float(np.linalg.norm(row)), 1e-12)  # rows on disk are rounded
        return [hit for hit in self.nearest(unit, k + 1, label) if hit.entry.key != key][:k]


def unknown_key(key: str) -> Refused:
    """Return the refusal of a key."""
    return Refused(404, f"no image of the index has the key {echo(key)}; search again.")


@contextlib.contextmanager
def answering() -> Iterator[None]:
    """Turn whatever goes wrong in a gallery into a 503: a store may be away. The log has the reason, not the answer."""
    try:
        yield
    except Refused:
        raise
    except Exception:
        log.exception("the index does not answer")
        raise Refused(503, "the index does not answer; try again in a second.", RETRY) from None
