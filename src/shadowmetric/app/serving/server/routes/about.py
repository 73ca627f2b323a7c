"""What is searched, whether the server is well, what it has counted; and the files of the page."""

import hashlib
import importlib.metadata
from functools import cache
from pathlib import Path as File
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST

from shadowmetric.app.serving.server.answers import ClassCount, Health, Index, Limits, without_folders
from shadowmetric.app.serving.server.refusals import document_statuses, stopping
from shadowmetric.app.serving.server.service import Here
from shadowmetric.app.serving.server.settings import MOST_NEIGHBORS

PAGE = File(__file__).parents[1] / "page"
FILES = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/style.css": ("style.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
MOST_CLASSES = 1000
Words = Annotated[str, Query(description="Classes that have these words, whatever the case.", max_length=200)]
Few = Annotated[int, Query(ge=0, le=MOST_CLASSES, description="How many classes at most.")]
Past = Annotated[int, Query(ge=0, le=2**31, description="How many classes to leave out first.")]
router = APIRouter()


@router.get("/api/index", tags=["index"], responses=document_statuses(422, 503))
def index(service: Here, contains: Words = "", limit: Few = 50, past: Past = 0) -> Index:
    """Tell what is searched: how many images, which classes, how the model was trained, what may be asked."""
    searched, settings = service.watched.now, service.settings
    known, words = searched.describe(), contains.casefold()
    matching = sorted(
        (name for name in known.classes if words in name.casefold()),
        key=lambda name: (not name.casefold().startswith(words), name.casefold(), name),
    )
    return Index(
        images=known.images,
        dim=searched.gallery.about.dim,
        classes=[ClassCount(name=name, images=known.classes[name][1]) for name in matching[past : past + limit]],
        classes_in_all=len(known.classes),
        classes_matching=len(matching),
        trained={
            without_folders(name): without_folders(value) for name, value in searched.gallery.about.trained.items()
        },
        limits=Limits(bytes=settings.most_bytes, pixels=settings.max_pixels, neighbors=MOST_NEIGHBORS),
        version=importlib.metadata.version("shadowmetric"),
    )


@router.head("/health", include_in_schema=False)  # watchers ask so; the answer of GET, without its body
@router.get("/health", tags=["operation"], responses=document_statuses(503))
async def health(service: Here) -> Health:
    """Tell whether requests are taken."""
    if service.stopping:
        raise stopping()
    return Health(status="ok")


@router.get(
    "/metrics",
    tags=["operation"],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **document_statuses()},
)
def metrics(service: Here) -> Response:
    """Tell counts and times, as Prometheus reads them."""
    return Response(service.metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})


async def page(request: Request) -> Response:
    """Show the page, or a file of it."""
    content, tag, kind = page_file(request.url.path)
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=kind)


@cache
def page_file(address: str) -> tuple[bytes, str, str]:
    """Return a file of the page, its tag and its type."""
    name, kind = FILES[address]
    content = (PAGE / name).read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"', kind


for address in FILES:
    router.add_api_route(address, page, include_in_schema=False)
