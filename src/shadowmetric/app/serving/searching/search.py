"""Images in, their most similar indexed images out: with the classes that those vote for, and whether any is meant."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from shadowmetric.app.serving.galleries.gallery import Gallery
from shadowmetric.app.serving.model import Model
from shadowmetric.errors import BrokenImage, Mistake
from shadowmetric.runtime.catalog import CatalogDecision
from shadowmetric.runtime.entries import About, Hit
from shadowmetric.runtime.images import open_image
from shadowmetric.runtime.votes import VOTERS, ClassVote, count_votes

BATCH = 32


@dataclass(frozen=True)
class Answer:
    """What was found for an image."""

    query: Path
    hits: list[Hit]
    root: str = ""  # the folder that was indexed
    classes: list[ClassVote] = field(default_factory=list)  # best first; empty if one class was searched
    decision: CatalogDecision | None = None  # None without a threshold, or if one class was searched


def answer_of(
    query: Path, hits: list[Hit], about: About, k: int, *, label: str | None, unknown_accept_rate: float | None
) -> Answer:
    """Return what `hits`, at least as many as vote, say of an image; the first k are shown."""
    if label is not None:
        return Answer(query, hits[:k], about.root)
    decision = (
        about.catalog.decide(hits[0].similarity, unknown_accept_rate) if hits and about.catalog is not None else None
    )
    return Answer(query, hits[:k], about.root, count_votes(hits[: max(k, VOTERS)]), decision)


def search(
    gallery: Gallery,
    model: Model,
    queries: Sequence[Path],
    k: int = 10,
    *,
    label: str | None = None,
    unknown_accept_rate: float | None = None,
    broken: list[str] | None = None,
) -> Iterator[Answer]:
    """Yield the k most similar images of each query, best first; of one class if `label` names it.

    unknown_accept_rate: of images of absent classes, the share that may pass for something of the catalog.

    A query that cannot be read is refused, or named in `broken` and left out if a list is given.
    """
    about, most = gallery.about, k if label is not None else max(k, VOTERS)
    check_rate(about, unknown_accept_rate)
    for start in range(0, len(queries), BATCH):
        read, squares = [], []
        for query in queries[start : start + BATCH]:
            try:
                squares.append(model.about.shape.square(open_image(query), str(query)))
                read.append(query)
            except BrokenImage as error:
                if broken is None:
                    raise
                broken.append(str(error))
        if read:
            found = gallery.nearest(model.embed(np.stack(squares)), most, label)
            for query, hits in zip(read, found, strict=True):
                yield answer_of(query, hits, about, k, label=label, unknown_accept_rate=unknown_accept_rate)


def check_rate(about: About, unknown_accept_rate: float | None) -> None:
    """Refuse a rate that the index cannot show."""
    if unknown_accept_rate is None:
        return
    if about.catalog is None:
        raise Mistake("the index has no threshold for what is not in the catalog; index the images again with its run.")
    about.catalog.row_at(unknown_accept_rate)
