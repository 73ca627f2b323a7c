"""Serve an index: open it and its model, and answer requests until a signal says to stop."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from shadowmetric.app.serving.galleries.elsewhere import open_with_images
from shadowmetric.app.serving.galleries.gallery import file_of
from shadowmetric.app.serving.model import model_of
from shadowmetric.app.serving.server.app import make_app
from shadowmetric.app.serving.server.running import address_of, listen, serve, threads_for
from shadowmetric.app.serving.server.settings import ServeSettings
from shadowmetric.app.serving.server.watched import IndexFile

Begun = Callable[[str, int], None]  # told the address, and how many images there are


def serve_index(
    place: str,
    settings: ServeSettings,
    model: Path | None = None,
    images: Path | None = None,
    begun: Begun | None = None,
) -> None:
    """Serve the index in a file or a vector store; model, images: if they are not where the index says.

    A file is copied first, so that whatever happens to it the old index is searched until a new one is whole: that
    costs its size on disk, and for a moment twice that when a new one comes (`own_copy.py`).
    """
    path, threads = file_of(place), threads_for(settings.at_once)
    with listen(settings) as listening:
        settings = replace(settings, bound=str(listening.getsockname()[0]))
        file = None if path is None else IndexFile(path, model, images, threads)
        gallery = open_with_images(place, images, own=True)
        try:
            app = make_app(gallery, model_of(gallery.about, path, model, threads), settings, file)
            serve(app, listening, lambda: begun and begun(address_of(listening), len(gallery)))
        finally:
            gallery.close()
