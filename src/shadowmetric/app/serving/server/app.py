"""The application: routes, errors, the guard before them, and what lives as long as it does."""

import asyncio
import contextlib
import importlib.metadata
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI

from shadowmetric.app.serving.galleries.gallery import Gallery
from shadowmetric.app.serving.model import Model
from shadowmetric.app.serving.server import refusals
from shadowmetric.app.serving.server.guard import Guard
from shadowmetric.app.serving.server.routes import about as routes_about
from shadowmetric.app.serving.server.routes import images as routes_images
from shadowmetric.app.serving.server.routes import search as routes_search
from shadowmetric.app.serving.server.service import Service
from shadowmetric.app.serving.server.settings import ServeSettings
from shadowmetric.app.serving.server.watched import IndexFile

ABOUT = "Search an index of images by an image. Errors are one sentence in `detail`."
# an environment variable, or a library, could else have FastAPI send what it sees to others
NO_TELEMETRY: Any = dict.fromkeys(("tracing", "metrics", "logs", "operation_spans", "auto_configure"), False)


def make_app(
    gallery: Gallery, model: Model, settings: ServeSettings | None = None, file: IndexFile | None = None
) -> FastAPI:
    """Return the application that searches a gallery; `file` is watched, and replaces the gallery when it is replaced.

    The interactive pages of FastAPI are off: they load scripts from elsewhere. /openapi.json is there.
    """
    service = Service(gallery, model, settings or ServeSettings(), file)
    app = FastAPI(
        title="shadowmetric",
        description=ABOUT,
        version=importlib.metadata.version("shadowmetric"),
        docs_url=None,
        redoc_url=None,
        telemetry=NO_TELEMETRY,
        lifespan=lifespan,
    )
    app.state.service = service
    for part in (routes_search, routes_images, routes_about):
        app.include_router(part.router)
    refusals.install(app)
    app.add_middleware(Guard, service=service)
    return app


@contextlib.asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Watch the index while requests are answered; then give everything back."""
    service: Service = app.state.service
    watching = asyncio.create_task(service.watched.watch())
    try:
        yield
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await watching
        service.close()
