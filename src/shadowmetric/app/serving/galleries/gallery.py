"""What can be searched, wherever its rows are: in a file, in Qdrant, in PostgreSQL.

A gallery holds a row of length 1 for each image, with its path and class; `about` says which model made the rows.
`open_gallery` chooses by the place's name.
"""

from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from shadowmetric.errors import Mistake
from shadowmetric.runtime.entries import About, Entry, Hit

QDRANT = ("qdrant://", "qdrants://")
POSTGRES = ("postgresql://", "postgres://")
STORES = (*QDRANT, *POSTGRES)


@runtime_checkable
class Gallery(Protocol):
    """Images that can be searched by their embeddings. All methods may be called from several threads."""

    @property
    def about(self) -> About:
        """Return which model made the rows, from which folder."""
        ...

    def __len__(self) -> int: ...

    def classes(self) -> dict[str, int]:
        """Return how many images each class has, by name; images without a class are not counted."""
        ...

    def nearest(self, rows: np.ndarray, k: int, label: str | None = None) -> list[list[Hit]]:
        """Return for each row, (queries, dim) float32 of length 1, its k most similar images, best first.

        label: search among the images of this class alone. Similarities are exact cosines of the rows on a grid
        (`runtime/exact_cosines.py`), the same wherever the rows are; equally similar images are ordered by path.
        """
        ...

    def entry(self, key: str) -> Entry | None:
        """Return the image with this key, if there is one."""
        ...

    def row(self, key: str) -> np.ndarray | None:
        """Return its embedding, (dim,) float32."""
        ...

    def close(self) -> None:
        """Give back connections and files."""
        ...


def is_store(place: str) -> bool:
    """Return whether a place is in a vector store, and no file."""
    return place.startswith(STORES)


def file_of(place: str) -> Path | None:
    """Return the file of a gallery; None for one in a vector store."""
    return None if is_store(place) else Path(place)


def open_gallery(place: str, *, own: bool = False) -> Gallery:
    """Return the gallery in a file, or at an address of a vector store; own: in a copy of the file."""
    if place.startswith(QDRANT):
        from shadowmetric.app.serving.stores.qdrant import open_qdrant

        return open_qdrant(place)
    if place.startswith(POSTGRES):
        from shadowmetric.app.serving.stores.postgres import open_postgres

        return open_postgres(place)
    if "://" in place:
        from shadowmetric.app.serving.stores.address import beginning

        raise Mistake(
            f"{beginning(place)} is no place of an index; name a file, or an address as {', '.join(STORES)}…."
        )
    from shadowmetric.app.serving.galleries.file_gallery import FileGallery

    return FileGallery(Path(place), own=own)
