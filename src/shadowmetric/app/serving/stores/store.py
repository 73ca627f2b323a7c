"""What filling asks of a vector store; what searching asks is in `gallery.py`."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from shadowmetric.app.serving.indexing.embedding import Embedded
from shadowmetric.runtime.entries import About


class Known(NamedTuple):
    """What a store has of an image, besides its row."""

    digest: bytes
    label: str | None


@runtime_checkable
class Store(Protocol):
    """What filling needs of a store."""

    @property
    def shown(self) -> str:
        """Return its address in words, without secrets."""
        ...

    def find_about(self) -> About | None:
        """Return which model made the rows that are there; None if nothing is; refuse what others wrote."""
        ...

    def begin(self, about: About) -> None:
        """Make room for the rows of this model if there is none, and say whose they are."""
        ...

    def __len__(self) -> int: ...

    def look_up(self, keys: list[str]) -> dict[str, Known]:
        """Return what is there of these keys."""
        ...

    def rows_of(self, digests: list[bytes]) -> dict[bytes, np.ndarray]:
        """Return rows of files with these contents, where the store finds them quickly."""
        ...

    def put(self, images: list[Embedded]) -> None:
        """Write rows, over older ones of the same keys, for good when this returns."""
        ...

    def relabel(self, labels: dict[str, str | None]) -> None:
        """Give images that are there other classes."""
        ...

    def keys(self) -> Iterator[str]:
        """Yield all keys; those yielded may be removed meanwhile."""
        ...

    def remove(self, keys: list[str]) -> None:
        """Remove rows."""
        ...

    def finish(self) -> None:
        """Make the index that the address asks for, if it is not there."""
        ...

    def close(self) -> None:
        """Give back connections and files."""
        ...
