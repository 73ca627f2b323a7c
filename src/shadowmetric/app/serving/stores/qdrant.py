"""A gallery in a collection of Qdrant: a server's, or a folder's in the client's local mode.

A point's id is the image's key as a UUID, its vector the row as float16 has it, compared by dot product (rows have
length 1), its payload {path, label, digest}. Which model made the rows stands as JSON in the collection's metadata; in
the one point of a second collection, NAME--about, where the server is too old for metadata (before 1.16). Paths and
classes are kept as `store_address.to_stored` has them. Points that others put beside ours are counted, but never found,
changed or removed: a point is ours if its id is the key of its path.

Search looks at every row, as files do; with ?index=hnsw it asks the index that a server makes of itself. Either way the
server proposes, and what it proposes is measured again (`proposed.py`), so that cosines and order are those of files.

Local mode is for trying things out: one process at a time, all rows in memory, a transaction a point.

Memory: the hits; in local mode all rows.
"""

import contextlib
import importlib.util
import json
import pickle
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from shadowmetric.app.serving.galleries.file_gallery import check_rows
from shadowmetric.app.serving.indexing.embedding import Embedded
from shadowmetric.app.serving.stores.address import QdrantPlace, from_stored, one_line, qdrant_place, to_stored
from shadowmetric.app.serving.stores.proposed import Proposed, no_reach, reach_of_halves, search_store
from shadowmetric.app.serving.stores.qdrant_opening import connect_qdrant, missing
from shadowmetric.app.serving.stores.qdrant_points import (
    digest_of,
    entry_of,
    id_of,
    matching,
    payload_of,
    round_to_half,
    select_points,
    to_candidate,
)
from shadowmetric.app.serving.stores.store import Known
from shadowmetric.errors import Mistake, Stopped
from shadowmetric.runtime.entries import About, Entry, Hit, about_from
from shadowmetric.runtime.exact_cosines import reach
from shadowmetric.runtime.search import unknown_class_error

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

AT_ONCE = 1000  # keys
MOST_CLASSES = 1_000_000
OURS = "shadowmetric"
BESIDE = "--about"
KEY = re.compile(r"[0-9a-f]{32}")
Answer = TypeVar("Answer")


def open_qdrant(place: str) -> "QdrantGallery":
    """Return the gallery at an address."""
    gallery = QdrantGallery(qdrant_place(place))
    try:
        if gallery.find_about() is None:
            raise missing(gallery.shown)
    except BaseException:
        gallery.close()
        raise
    return gallery


class QdrantGallery:
    """The images of a collection. `make`: a folder that is not there is made."""

    def __init__(self, place: QdrantPlace, make: bool = False):
        if importlib.util.find_spec("qdrant_client") is None:
            raise Mistake("qdrant_client is not installed; run `pip install 'shadowmetric[qdrant]'`.")
        self.place, self.shown, self.name = place, place.shown, place.collection
        self.known_about: About | None = None
        self.lock = contextlib.nullcontext() if place.folder is None else threading.RLock()
        self.client = connect_qdrant(place, make)

    @property
    def about(self) -> About:
        """Return which model made the rows."""
        assert self.known_about is not None
        return self.known_about

    def ask(self, question: Callable[["QdrantClient"], Answer]) -> Answer:
        """Return the client's answer; a connection that broke is tried once more."""
        from qdrant_client.common.client_exceptions import QdrantException
        from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

        with self.lock:
            try:
                try:
                    return question(self.client)
                except ResponseHandlingException:
                    return question(self.client)
            except UnexpectedResponse as error:
                if error.status_code in (401, 403):
                    raise Mistake(
                        f"{self.shown} is not for this key; write qdrant://KEY@HOST/…, or set QDRANT_API_KEY."
                    ) from None
                reason = f"{error.status_code} {error.content[:200].decode(errors='replace')}"
                raise Stopped(f"{self.shown} cannot be used: the server answered {one_line(reason)}.") from None
            except ResponseHandlingException as error:
                raise Stopped(
                    f"{self.shown} cannot be reached ({one_line(error.source)}); look whether the server runs."
                ) from None
            except (
                ApiException,
                QdrantException,
                AssertionError,  # or it is no Qdrant
                ValueError,
                RecursionError,
                pickle.UnpicklingError,
            ) as error:
                raise Stopped(f"{self.shown} cannot be used ({one_line(error)}); try again later.") from None

    def find_about(self) -> About | None:
        """Return which model made the points that are there; None if there are none; refuse what others wrote."""
        if not self.ask(lambda client: client.collection_exists(self.name)):
            return None
        metadata = self.describe_collection()
        if metadata is None:
            if len(self):
                raise nobody(self.shown)
            return None
        try:
            self.known_about = about_from(metadata, self.shown)
        except RecursionError:
            raise nobody(self.shown) from None
        return self.known_about

    def describe_collection(self) -> Any:
        """Return what the collection, or the one beside it, says of itself."""
        metadata = self.ask(lambda client: client.get_collection(self.name)).config.metadata or {}
        text, beside = metadata.get(OURS), self.name + BESIDE
        if text is None and self.ask(lambda client: client.collection_exists(beside)):
            points = self.ask(lambda client: client.retrieve(beside, [0]))
            text = (points[0].payload or {}).get(OURS) if points else None
        try:
            return None if text is None else json.loads(text)
        except (TypeError, ValueError, RecursionError):
            return {}

    def begin(self, about: About) -> None:
        """Make the collection if it is not there, and say whose rows it has."""
        from qdrant_client import models

        dot, metadata = models.Distance.DOT, {OURS: json.dumps(about.plain())}
        if self.ask(lambda client: client.collection_exists(self.name)):
            vectors = self.ask(lambda client: client.get_collection(self.name)).config.params.vectors
            if not isinstance(vectors, models.VectorParams) or (vectors.size, vectors.distance) != (about.dim, dot):
                raise Mistake(
                    f"{self.shown} is there, but not for rows of {about.dim} compared by dot product; "
                    "name another collection."
                )
            self.ask(lambda client: client.update_collection(self.name, metadata=metadata))
        else:
            rows = models.VectorParams(size=about.dim, distance=dot, datatype=models.Datatype.FLOAT16)
            self.ask(lambda client: client.create_collection(self.name, vectors_config=rows, metadata=metadata))
        if self.place.folder is None:
            keyword = models.PayloadSchemaType.KEYWORD
            for field in ("label", "digest"):
                self.ask(lambda client, field=field: client.create_payload_index(self.name, field, keyword))
        if self.describe_collection() != json.loads(metadata[OURS]):
            self.tell_beside(metadata)
        self.known_about = about

    def tell_beside(self, metadata: dict[str, str]) -> None:
        """Say whose rows they are in a second collection."""
        from qdrant_client import models

        beside, point = self.name + BESIDE, models.PointStruct(id=0, vector={}, payload=metadata)
        if not self.ask(lambda client: client.collection_exists(beside)):
            self.ask(lambda client: client.create_collection(beside, vectors_config={}))
        self.ask(lambda client: client.upsert(beside, [point], wait=True))

    def __len__(self) -> int:
        return self.ask(lambda client: client.count(self.name, exact=True)).count

    def classes(self) -> dict[str, int]:
        """Return how many images each class has."""
        facets = self.ask(lambda client: client.facet(self.name, "label", limit=MOST_CLASSES, exact=True))
        return dict(sorted((from_stored(str(hit.value)), hit.count) for hit in facets.hits))

    def nearest(self, rows: np.ndarray, k: int, label: str | None = None) -> list[list[Hit]]:
        """Return the k most similar images of each row, best first."""
        from qdrant_client import models

        check_rows(rows, self.about.dim, k)
        some = None if label is None else matching("label", [to_stored(label)])
        if some is not None and not self.ask(lambda client: client.count(self.name, some, exact=True)).count:
            raise unknown_class_error(str(label), list(self.classes()))
        exact = self.place.index is None and self.place.folder is None  # local mode always is
        params = models.SearchParams(exact=True) if exact else None
        what = {"filter": some, "params": params, "with_payload": ["path", "label"], "with_vector": True}

        def ask(queries: np.ndarray, limit: int) -> list[list[Proposed]]:
            requests = [models.QueryRequest(query=row, limit=limit, **what) for row in queries.tolist()]
            answers = self.ask(lambda client: client.query_batch_points(self.name, requests))
            return [[to_candidate(point) for point in answer.points] for answer in answers]

        reach_of = reach if self.place.folder is not None else reach_of_halves
        return search_store(rows, k, reach_of if self.place.index is None else no_reach, ask)

    def points(self, keys: list[str], **what: bool) -> "list[models.Record]":
        """Return the points of keys that are there."""
        ids = [str(uuid.UUID(key)) for key in keys if KEY.fullmatch(key)]
        return self.ask(lambda client: client.retrieve(self.name, ids, **what)) if ids else []

    def entry(self, key: str) -> Entry | None:
        """Return the image with this key, if there is one."""
        points = self.points([key])
        return entry_of(points[0]) if points else None

    def row(self, key: str) -> np.ndarray | None:
        """Return its embedding."""
        points = self.points([key], with_vectors=True)
        return np.array(points[0].vector, np.float32) if points and entry_of(points[0]) else None

    def look_up(self, keys: list[str]) -> dict[str, Known]:
        """Return what is there of these keys."""
        pairs = [(entry_of(point), digest_of(point)) for point in self.points(keys)]
        return {entry.key: Known(digest, entry.label) for entry, digest in pairs if entry and digest}

    def rows_of(self, digests: list[bytes]) -> dict[bytes, np.ndarray]:
        """Return rows of files with these contents, of all but those that others crowd out of one answer."""
        some, most = matching("digest", [digest.hex() for digest in digests]), 2 * len(digests)
        points, _ = self.ask(lambda client: client.scroll(self.name, some, limit=most, with_vectors=True))
        pairs = [(digest_of(point), point.vector) for point in points if entry_of(point)]
        return {digest: np.array(row, np.float32) for digest, row in pairs if digest}

    def put(self, images: list[Embedded]) -> None:
        """Write points, over older ones of the same keys."""
        from qdrant_client import models

        points = [
            models.PointStruct(id=id_of(listed.path), vector=round_to_half(row), payload=payload_of(*listed, digest))
            for listed, digest, row in images
        ]
        self.ask(lambda client: client.upsert(self.name, points, wait=True))

    def relabel(self, labels: dict[str, str | None]) -> None:
        """Give images that are there other classes."""
        for label in set(labels.values()):
            ids = select_points([key for key in labels if labels[key] == label])
            payload = {"label": None if label is None else to_stored(label)}
            self.ask(lambda client, payload=payload, ids=ids: client.set_payload(self.name, payload, ids, wait=True))

    def keys(self) -> Iterator[str]:
        """Yield all keys of ours, in order."""
        after = None
        while True:
            what = {"limit": AT_ONCE, "offset": after, "with_payload": ["path"]}
            points, after = self.ask(lambda client, what=what: client.scroll(self.name, **what))
            yield from (entry.key for entry in map(entry_of, points) if entry)
            if after is None:
                return

    def remove(self, keys: list[str]) -> None:
        """Remove points."""
        self.ask(lambda client: client.delete(self.name, select_points(keys), wait=True))

    def finish(self) -> None:
        """A server makes its index of itself."""

    def close(self) -> None:
        """Close connections and files."""
        with self.lock:
            self.client.close()


def nobody(place: str) -> Mistake:
    """Return the refusal of a collection that others made."""
    return Mistake(f"{place} is there, but not by shadowmetric; name another collection.")
