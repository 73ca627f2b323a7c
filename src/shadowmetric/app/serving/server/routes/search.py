"""Search by an upload, and on from an image of the index."""

import io
import math
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from shadowmetric.app.serving.server.answers import Neighbors, answer, verdict_of
from shadowmetric.app.serving.server.refusals import Refused, document_statuses
from shadowmetric.app.serving.server.searched import KEY, Searched
from shadowmetric.app.serving.server.service import Here, Service
from shadowmetric.app.serving.server.settings import MOST_NEIGHBORS
from shadowmetric.app.serving.server.uploads import (
    DRAINED_SECONDS,
    LAST_DRAINED_SECONDS,
    drain_body,
    square_of,
)
from shadowmetric.runtime.votes import VOTERS, count_votes

TYPES = ("image/jpeg", "image/png", "image/webp", "application/octet-stream")
BODY: dict[str, Any] = {
    "description": "The bytes of an image. Content-Type does not matter; the format is known by the content.",
    "required": True,
    "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in TYPES},
}
HowMany = Annotated[int, Query(ge=1, le=MOST_NEIGHBORS, description="How many neighbors.")]
Class = Annotated[str | None, Query(alias="class", description="Search among the images of this class alone.")]
Key = Annotated[str, Path(description="An image of the index.", json_schema_extra={"pattern": f"^{KEY.pattern}$"})]
router = APIRouter(prefix="/api", tags=["search"])


@router.post("/search", responses=document_statuses(404, 408, 413, 422, 503), openapi_extra={"requestBody": BODY})
async def search(request: Request, service: Here, k: HowMany = 12, label: Class = None) -> Neighbors:
    """Find the images that are most similar to one that is sent."""
    try:
        async with service.uploads.receive(request, service.searches.arrival()) as body:
            with service.searches.place():
                return await service.searches.work(by_upload, service, service.watched.now, body, k, label)
    except Refused as refused:
        seconds = LAST_DRAINED_SECONDS if service.stopping else DRAINED_SECONDS
        if refused.status in (413, 503) and not await drain_body(request, seconds):
            refused.headers["Connection"] = "close"
        raise


@router.get("/images/{key}/neighbors", responses=document_statuses(404, 422, 503))
async def neighbors(service: Here, key: Key, k: HowMany = 12, label: Class = None) -> Neighbors:
    """Find the images that are most similar to one of the index, which is left out."""
    with service.searches.place():
        return await service.searches.work(by_key, service, service.watched.now, key, k, label)


def by_upload(service: Service, searched: Searched, body: io.BytesIO, k: int, label: str | None) -> Neighbors:
    """Decode, embed, search."""
    spent: dict[str, float] = {}
    wanted = searched.label(label)
    with service.metrics.time_stage("decode", spent):
        squares = square_of(body, searched.model.about.shape, service.settings.max_pixels)
    with service.metrics.time_stage("embed", spent):
        row = searched.model.embed(squares)[0]
    with service.metrics.time_stage("search", spent):
        hits = searched.nearest(row, k if wanted is not None else max(k, VOTERS), wanted)
    if wanted is not None:
        return answer(hits, spent)
    catalog = searched.gallery.about.catalog
    near = hits[0].similarity if hits else math.nan
    decision = None if catalog is None or not math.isfinite(near) else catalog.decide(near)
    return answer(hits[:k], spent, verdict_of(count_votes(hits), decision))


def by_key(service: Service, searched: Searched, key: str, k: int, label: str | None) -> Neighbors:
    """Search by a row of the index."""
    spent: dict[str, float] = {}
    wanted = searched.label(label)
    with service.metrics.time_stage("search", spent):
        hits = searched.beside(key, k, wanted)
    return answer(hits, spent)
