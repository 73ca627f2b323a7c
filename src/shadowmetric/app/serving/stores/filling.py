"""Images into a vector store that people already run: the same rows as an index file has.

Every image of a listing is looked up by the key of its path. One that the store has with the same SHA-256 is left
alone, or gets its new class; one that the store has under another path gives its row to the new one; the rest is
embedded. What is no longer listed, or cannot be read any more, is removed last; but nothing if no image at all can be
read, for then it is the folder that is not there.

Each batch is written for good before the next is made: a kill at any moment loses nothing that was written, and the
same command goes on from there. A second call on the same images writes nothing.

Memory: a few batches, and 8 bytes an image, whatever the number of images (their paths are the listing's); but
Qdrant's local mode keeps all of its rows in memory. Time: that of embedding what is new, and of reading every file once
for its SHA-256.
"""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

import numpy as np

from shadowmetric.app.serving.galleries.gallery import POSTGRES
from shadowmetric.app.serving.indexing.embedding import BATCH, Embedded, digests_of, embed_images
from shadowmetric.app.serving.indexing.listing import Listed, Listing
from shadowmetric.app.serving.model import Model
from shadowmetric.app.serving.stores.store import Store
from shadowmetric.errors import Mistake
from shadowmetric.progress import Report
from shadowmetric.runtime.entries import key_of, same_rows

LOOKED_UP = 256  # images that a store is asked for at once
Item = TypeVar("Item")


@dataclass
class Filled:
    """How many images were new, had another content or class, were removed, were there; sentences on broken ones.

    notes: sentences on what else is different from before.
    """

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    broken: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def fill_store(
    model: Model,
    listing: Listing,
    place: str,
    *,
    tell: Report | None = None,
    batch: int = BATCH,
    index: str | None = None,
) -> Filled:
    """Make a store hold the images of a listing and no others; `index`, if given, goes before the address's."""
    about = replace(model.about, root=str(listing.root.resolve()))
    store = open_store(place, index)
    try:
        store_about = store.find_about()
        if store_about is not None and not same_rows(store_about, about):
            named = "table by ?table=NAME" if place.startswith(POSTGRES) else "collection"
            raise Mistake(f"{store.shown} holds rows of another model; name another {named}, or remove it.")
        if store_about is None:
            store.begin(about)
        filling = Filling(store, listing, tell)
        filling.write(model, batch)
        if store_about is not None and store_about != about:  # not earlier: if nothing can be read, all stays as it was
            store.begin(about)
        if store_about is not None and store_about.root != about.root:
            filling.filled.notes.append(f"The store was of {store_about.root}; now it is of {about.root}.")
        filling.remove_others()
        filling.tell("finishing", 1.0)
        store.finish()
        return filling.filled
    finally:
        store.close()


class Filling:
    """One call of `fill_store`: what it has seen so far."""

    def __init__(self, store: Store, listing: Listing, tell: Report | None):
        self.store, self.listing = store, listing
        self.tell: Report = tell or (lambda stage, share: None)
        self.filled = Filled()
        self.kept = array("Q")  # the first 8 bytes of each key that stays
        self.changing: set[str] = set()  # keys that are being embedded again
        self.may_know = len(store) > 0

    def write(self, model: Model, batch: int) -> None:
        """Add and change; refuse a listing of which nothing can be read."""
        broken = self.filled.broken
        for images in embed_images(model, self.listing.root, self.fresh(), batch=batch, broken=broken):
            self.store.put(images)
            for image in images:
                self.note(key_of(image.listed.path))
        if not self.kept:
            first = f"; the first: {broken[0].rstrip('.')}" if broken else ""
            count = len(self.listing.images)
            raise Mistake(f"none of the {count:,} images can be read{first}; nothing was removed.")

    def note(self, key: str) -> None:
        """Count an image that was written."""
        self.keep(key)
        if key in self.changing:
            self.changing.remove(key)
            self.filled.changed += 1
        else:
            self.filled.added += 1

    def keep(self, key: str) -> None:
        """Remember a key that stays."""
        self.kept.append(int(key[:16], 16))
        self.tell("embedding", len(self.kept) / len(self.listing.images))

    def fresh(self) -> Iterator[Listed]:
        """Yield the images that must be embedded; see to the others."""
        files = digests_of(self.listing.root, self.listing.images, broken=self.filled.broken)
        for some in parts(files, LOOKED_UP):
            yield from self.look_up({key_of(listed.path): (listed, digest) for listed, digest in some})

    def look_up(self, wanted: dict[str, tuple[Listed, bytes]]) -> list[Listed]:
        """Return those images whose row the store has not."""
        known = self.store.look_up(list(wanted)) if self.may_know else {}
        same = {key: known[key] for key in known if known[key].digest == wanted[key][1]}
        labels = {key: wanted[key][0].label for key in same if wanted[key][0].label != same[key].label}
        if labels:
            self.store.relabel(labels)
        self.filled.changed += len(labels)
        self.filled.unchanged += len(same) - len(labels)
        for key in same:
            self.keep(key)
        rest = {key: wanted[key] for key in wanted if key not in same}
        self.changing.update(key for key in rest if key in known)
        rows = self.store.rows_of([digest for _, digest in rest.values()]) if rest and self.may_know else {}
        moved = {key: Embedded(*rest[key], rows[rest[key][1]]) for key in rest if rest[key][1] in rows}
        if moved:
            self.store.put(list(moved.values()))
        for key in moved:
            self.note(key)
        return [listed for key, (listed, _) in rest.items() if key not in moved]

    def remove_others(self) -> None:
        """Remove what was not kept."""
        kept = np.sort(np.frombuffer(self.kept, np.uint64))
        for keys in parts(self.store.keys(), LOOKED_UP):
            numbers = np.array([int(key[:16], 16) for key in keys], np.uint64)
            stays = kept[np.minimum(np.searchsorted(kept, numbers), len(kept) - 1)] == numbers
            others = [key for key, stay in zip(keys, stays.tolist(), strict=True) if not stay]
            if others:
                self.tell("removing", 1.0)
                self.store.remove(others)
                self.filled.removed += len(others)


def parts(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    """Yield the items, some at a time."""
    iterator = iter(items)
    while some := list(islice(iterator, most)):
        yield some


def open_store(place: str, index: str | None = None) -> Store:
    """Return the store at an address, whether it holds rows or not."""
    from shadowmetric.app.serving.stores.address import check_index_kind, postgres_place, qdrant_place

    if place.startswith(POSTGRES):
        from shadowmetric.app.serving.stores.postgres import PostgresGallery

        table = postgres_place(place)
        return PostgresGallery(replace(table, index=check_index_kind(index) or table.index))
    from shadowmetric.app.serving.stores.qdrant import QdrantGallery

    collection = qdrant_place(place)
    return QdrantGallery(replace(collection, index=check_index_kind(index) or collection.index), make=True)
