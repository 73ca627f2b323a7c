"""A gallery whose images are in another folder than its index says: they have moved, or the index is another's."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from shadowmetric.app.serving.galleries.gallery import Gallery, open_gallery
from shadowmetric.errors import Mistake
from shadowmetric.runtime.entries import Entry, Hit


class Elsewhere:
    """A gallery as it is, but for the folder that its images are shown from."""

    def __init__(self, gallery: Gallery, folder: Path):
        if not folder.is_dir():
            raise Mistake(f"--images {str(folder)!r} is no folder; name the one that was indexed.")
        self.gallery, self.about = gallery, replace(gallery.about, root=str(folder.resolve()))

    def __len__(self) -> int:
        return len(self.gallery)

    def classes(self) -> dict[str, int]:
        """Return how many images each class has."""
        return self.gallery.classes()

    def nearest(self, rows: np.ndarray, k: int, label: str | None = None) -> list[list[Hit]]:
        """Return the k most similar images of each row, best first."""
        return self.gallery.nearest(rows, k, label)

    def entry(self, key: str) -> Entry | None:
        """Return the image with this key, if there is one."""
        return self.gallery.entry(key)

    def row(self, key: str) -> np.ndarray | None:
        """Return its embedding."""
        return self.gallery.row(key)

    def close(self) -> None:
        """Give back connections and files."""
        self.gallery.close()


def open_with_images(place: str, images: Path | None, *, own: bool = False) -> Gallery:
    """Return a gallery whose images are shown from a folder, or from where it says they are; own: as a copy."""
    gallery = open_gallery(place, own=own)
    return gallery if images is None else Elsewhere(gallery, images)
