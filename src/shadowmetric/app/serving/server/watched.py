"""The index that is searched now; when its file is replaced, the new one takes its place without a restart.

The file is looked at once a second. A new one is copied (`own_copy.py`) and checked by a thread while the copy
of the old one is searched; if it is refused, half written for instance, that goes on and the log says why. It does not
matter whether the file is replaced, overwritten in place, cut short or removed. The model is opened again only if other
weights made the new index.
"""

import asyncio
import logging
from pathlib import Path

import numpy as np

from shadowmetric.app.serving.galleries.elsewhere import open_with_images
from shadowmetric.app.serving.galleries.gallery import Gallery
from shadowmetric.app.serving.model import Model, model_of
from shadowmetric.app.serving.server.searched import Searched
from shadowmetric.runtime.entries import same_rows

EVERY_SECONDS = 1.0
NO_KEY = "0" * 32
log = logging.getLogger("shadowmetric.serve")


class IndexFile:
    """The file of an index, and what it looked like when it was opened last."""

    def __init__(self, path: Path, instead: Path | None = None, images: Path | None = None, threads: int | None = None):
        self.path, self.instead, self.images, self.threads = path, instead, images, threads
        self.seen = self.mark()

    def mark(self) -> tuple[int, ...] | None:
        """Return what changes when a file is replaced, or nothing while it is away."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size

    def has_changed(self) -> bool:
        """Return whether there is another file than last time, once for each."""
        mark = self.mark()
        if mark is None or mark == self.seen:
            return False
        self.seen = mark
        return True

    def open(self, model: Model) -> tuple[Gallery, Model]:
        """Return the gallery in the file, and its model."""
        gallery = open_with_images(str(self.path), self.images, own=True)
        if not same_rows(gallery.about, model.about):
            model = model_of(gallery.about, self.path, self.instead, self.threads)
        return gallery, model


class Watched:
    """What is searched now."""

    def __init__(self, gallery: Gallery, model: Model, file: IndexFile | None = None):
        self.now = Searched(gallery, model)
        self.file = file

    async def watch(self) -> None:
        """Look at the file for as long as the server runs."""
        await asyncio.to_thread(self.warm)
        while self.file is not None:
            await asyncio.sleep(EVERY_SECONDS)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Open the file if it is another one."""
        if self.file is None or not self.file.has_changed():
            return
        try:
            gallery, model = self.file.open(self.now.model)
        except Exception as error:  # whatever it is, the next file may be right
            log.warning("the index file has changed and is refused; a copy of the one before is searched on: %s", error)
            return
        self.now = Searched(gallery, model)  # requests at work have the old one, which goes when they end
        self.warm()
        log.warning("the index was replaced: %s images.", f"{len(gallery):,}")

    def warm(self) -> None:
        """Let the gallery and the model make what their first answers need."""
        try:
            self.now.describe()
            self.now.gallery.entry(NO_KEY)
            shape = self.now.model.about.shape
            self.now.model.embed(np.zeros((1, shape.channels, shape.size, shape.size), np.uint8))
        except Exception as error:
            log.warning("the index or its model does not answer yet: %s", error)
