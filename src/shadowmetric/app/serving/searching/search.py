"""Images in, their most similar indexed images out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shadowmetric.app.serving.galleries.gallery import Gallery
from shadowmetric.app.serving.model import Model
from shadowmetric.errors import BrokenImage
from shadowmetric.runtime.entries import Hit
from shadowmetric.runtime.images import open_image

BATCH = 32


@dataclass(frozen=True)
class Answer:
    """What was found for an image."""

    query: Path
    hits: list[Hit]
    root: str = ""  # the folder that was indexed


def search(
    gallery: Gallery,
    model: Model,
    queries: Sequence[Path],
    k: int = 10,
    *,
    label: str | None = None,
    broken: list[str] | None = None,
) -> Iterator[Answer]:
    """Yield the k most similar images of each query, best first; of one class if `label` names it.

    A query that cannot be read is refused, or named in `broken` and left out if a list is given.
    """
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
            found = gallery.nearest(model.embed(np.stack(squares)), k, label)
            yield from (Answer(query, hits, gallery.about.root) for query, hits in zip(read, found, strict=True))
