"""Make an index of images, or bring one up to date.

    1  list the images; take the SHA-256 of each file
    2  an image whose bytes are known, from the index that is there or from an indexing that was stopped, keeps its
       row, wherever it has moved; the others are embedded
    3  write the new index, which takes the old one's place at once

A kill leaves the old index. What was embedded until then is in a file beside it, `.NAME.part`, an index too, and is
used by the next call; it is written every half minute, and when Ctrl-C is pressed. Rows of another model are not used.

Images that cannot be read are named and left out, and tried again by the next call.

Memory: (images, dim) float16, under a kilobyte an image for paths and sums, and what `embedding.py` says.
"""

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from shadowmetric.app.serving.indexing.embedding import BATCH, digests_of, embed_images
from shadowmetric.app.serving.indexing.listing import Listed, Listing
from shadowmetric.app.serving.model import Model, places_of
from shadowmetric.app.serving.places import check_writable
from shadowmetric.errors import Mistake
from shadowmetric.progress import Report
from shadowmetric.runtime.entries import About, same_rows
from shadowmetric.runtime.index_file import Contents, read_index, write_index

PART_EVERY = 30.0  # seconds
EXACT = "none"  # as a kind of approximate search
Before = dict[str, tuple[bytes, str | None]]  # SHA-256 and class of what the old index holds, by path


@dataclass(frozen=True)
class Indexed:
    """What an indexing did."""

    images: int
    added: int
    changed: int  # other bytes, or another class, at a known path
    removed: int
    unchanged: int
    embedded: int  # the others' bytes were known
    broken: list[str]  # a sentence for each image that was left out
    notes: list[str]
    approximate: str  # kind and quality, or nothing


class Known:
    """Rows by the SHA-256 of the file that they are of."""

    def __init__(self, dim: int):
        self.number: dict[bytes, int] = {}
        self.rows = np.empty((1024, dim), np.float16)  # twice as many when it is full

    def __contains__(self, digest: bytes) -> bool:
        return digest in self.number

    def learn(self, digests: Iterable[bytes], rows: np.ndarray) -> None:
        """Keep rows that are new."""
        for digest, row in zip(digests, rows, strict=True):
            if (number := self.number.setdefault(digest, len(self.number))) == len(self.rows):
                self.rows = np.concatenate([self.rows, np.empty_like(self.rows)])
            self.rows[number] = row

    def rows_of(self, digests: Iterable[bytes]) -> np.ndarray:
        """Return known rows, in the order asked for."""
        return self.rows[[self.number[digest] for digest in digests]]


def build_index(
    model: Model,
    listing: Listing,
    out: Path,
    *,
    approximate: str | None = None,
    batch: int = BATCH,
    tell: Report | None = None,
) -> Indexed:
    """Make or renew the index `out`."""
    lock = FileLock(out.with_name(f".{out.name}.lock"))
    check_writable(out.parent, "name another --out")  # where no file can be made, a lock looks taken
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        held = lock.acquire(timeout=0)
    except Timeout:  # which is an OSError, too
        raise Mistake(f"another process is indexing into {out}; wait for it, or name another --out.") from None
    except OSError as error:
        raise Mistake(f"{out} cannot be written ({error.strerror}); name another --out.") from None
    with held:  # not `with lock`, which would take it twice and give it back once
        return _build(model, listing, out, approximate, batch, tell or (lambda *_: None))


def _build(model: Model, listing: Listing, out: Path, approximate: str | None, batch: int, tell: Report) -> Indexed:
    if batch < 1:
        raise Mistake(f"--batch is {batch}; it must be 1 or more.")
    approximate = choose_kind(approximate, out)  # before the work
    about = replace(model.about, root=str(listing.root), model=places_of(model.about, out))
    part = out.with_name(f".{out.name}.part")
    known, before, notes = what_is_known(about, out)
    kept = load_progress(about, part, known)

    def keep(additions: dict[Listed, bytes]) -> None:
        """Write what is embedded so far, this time and before."""
        if additions:
            write_index(part, about, assemble_arrays(sorted((kept | additions).items()), known))

    broken: list[str] = []
    digests = take_digests(listing, broken, tell)
    todo = {digest: listed for listed, digest in reversed(digests.items()) if digest not in known}  # one of each
    first = list(todo.values())[::-1]
    embedded = embed_missing(model, listing.root, first, known, batch, broken, keep, tell)
    kept.update(embedded)  # what `keep` writes
    failed = set(first) - embedded.keys()
    copies = [listed for listed, digest in digests.items() if digest not in known and listed not in failed]
    if copies:  # what stood for them could not be read: it may have vanished, and they may be whole
        embedded |= embed_missing(model, listing.root, copies, known, batch, broken, keep, tell)
        failed |= set(copies) - embedded.keys()
    there = ((listed, digest) for listed, digest in (digests | embedded).items() if listed not in failed)
    entries = [(listed, digest) for listed, digest in there if digest in known]
    if not entries:
        raise Mistake(f"none of the {len(listing.images):,} images can be read; the first: {broken[0]}")
    contents = assemble_arrays(sorted(entries), known)
    counted = changes(before, entries)
    if approximate is not None:
        from shadowmetric.app.serving.galleries.approximate import build_faiss_index

        stored, words = build_faiss_index(contents.rows, approximate, tell)
        contents = replace(contents, approximate=stored, approximate_words=words)
    write_index(out, about, contents)
    part.unlink(missing_ok=True)
    return Indexed(
        images=len(contents),
        **counted,
        embedded=len(embedded),
        broken=sorted(broken),
        notes=[*listing.notes, *notes],
        approximate=contents.approximate_words,
    )


def choose_kind(approximate: str | None, out: Path) -> str | None:
    """Return the kind of approximate search: what is asked for, else what the index has; None for exact search."""
    from shadowmetric.app.serving.galleries.approximate import check_kind, kind_of

    if approximate is None and out.exists():
        approximate = kind_of(read_old(out)[1].approximate_words)
    if approximate in (None, EXACT):
        return None
    check_kind(approximate)
    return approximate


def read_old(out: Path) -> tuple[About, Contents]:
    """Return the index that is there, or say that it cannot be renewed."""
    try:
        return read_index(out)
    except Mistake as error:
        reason = str(error).partition(";")[0]
        raise Mistake(f"{reason}; it cannot be renewed: remove it, or name another --out.") from None


def check_same_folder(out: Path, listing: Listing) -> None:
    """Refuse to renew an index of another folder, of whose images none is listed. It costs to open the index.

    A folder that is gone has moved, if its paths are listed below another.
    """
    if not out.exists():
        return
    old, contents = read_old(out)
    if old.root == str(listing.root):
        return
    before, now = (old.root, listing.root) if os.path.isdir(old.root) else ("", "")
    places = {os.path.join(now, one.path) for one in listing.images}
    if not any(os.path.join(before, path) in places for path in contents.paths):
        raise Mistake(
            f"{out} is the index of {old.root}, and would become that of {listing.root}; name another file by --out, "
            f"or replace this one by --out {out}."
        )


def what_is_known(about: About, out: Path) -> tuple[Known, Before, list[str]]:
    """Return the rows that need not be made again, what the old index holds by path, and sentences on it."""
    known, before, notes = Known(about.dim), {}, []
    if out.exists():
        old, contents = read_old(out)
        before = {
            path: (bytes(digest), contents.entry(number).label)
            for number, (path, digest) in enumerate(zip(contents.paths, contents.hashes, strict=True))
        }
        if old.root != about.root:
            notes.append(f"The index was of {old.root}; now it is of {about.root}.")
        if same_rows(old, about):
            known.learn(map(bytes, contents.hashes), contents.rows)
        else:
            notes.append("The index was of another model: every image is embedded again.")
    return known, before, notes


def load_progress(about: About, part: Path, known: Known) -> dict[Listed, bytes]:
    """Learn what an indexing that was stopped has embedded, and return it."""
    if not part.exists():
        return {}
    try:
        old, contents = read_index(part)
    except Mistake:  # it is ours alone, and all of it can be made again
        return {}
    if not same_rows(old, about):
        return {}
    known.learn(map(bytes, contents.hashes), contents.rows)
    return {
        Listed(contents.paths[number], contents.entry(number).label): bytes(contents.hashes[number])
        for number in range(len(contents))
    }


def take_digests(listing: Listing, broken: list[str], tell: Report) -> dict[Listed, bytes]:
    """Return the SHA-256 of each file."""
    digests, total = {}, len(listing.images)
    for listed, digest in digests_of(listing.root, listing.images, broken=broken):
        digests[listed] = digest
        tell("comparing files", len(digests) / total)
    return digests


def embed_missing(
    model: Model,
    root: Path,
    images: list[Listed],
    known: Known,
    batch: int,
    broken: list[str],
    keep: Callable[[dict[Listed, bytes]], None],
    tell: Report,
) -> dict[Listed, bytes]:
    """Learn the rows of images, and keep them for later now and then; return what was embedded."""
    digests: dict[Listed, bytes] = {}
    last_write = time.monotonic()
    try:
        for some in embed_images(model, root, images, batch=batch, broken=broken):
            known.learn((one.digest for one in some), np.stack([one.row for one in some]))
            digests.update((one.listed, one.digest) for one in some)
            tell("embedding", len(digests) / len(images))
            if time.monotonic() - last_write > PART_EVERY:
                keep(digests)
                last_write = time.monotonic()
    except KeyboardInterrupt:
        keep(digests)
        raise
    return digests


def assemble_arrays(entries: list[tuple[Listed, bytes]], known: Known) -> Contents:
    """Return the arrays of an index."""
    classes = tuple(sorted({listed.label for listed, _ in entries if listed.label is not None}))
    number: dict[str | None, int] = {None: -1} | {name: place for place, name in enumerate(classes)}
    return Contents(
        known.rows_of(digest for _, digest in entries),
        np.array([number[listed.label] for listed, _ in entries], np.int32),
        np.frombuffer(b"".join(digest for _, digest in entries), np.uint8).reshape(-1, 32),
        [listed.path for listed, _ in entries],
        classes,
    )


def changes(before: Before, entries: list[tuple[Listed, bytes]]) -> dict[str, int]:
    """Count what differs from the old index."""
    now = {listed.path: (digest, listed.label) for listed, digest in entries}
    kept = before.keys() & now.keys()
    unchanged = sum(before[path] == now[path] for path in kept)
    return {
        "added": len(now) - len(kept),
        "changed": len(kept) - unchanged,
        "removed": len(before) - len(kept),
        "unchanged": unchanged,
    }
