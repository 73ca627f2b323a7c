"""Thumbnails of the images of the index."""

from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import Response

from shadowmetric.app.serving.server.refusals import document_statuses
from shadowmetric.app.serving.server.routes.search import Key
from shadowmetric.app.serving.server.service import Here, Service
from shadowmetric.app.serving.server.thumbnails import LEAST_SIDE, MOST_SIDE, SIDE, place_of

CACHED = "private, max-age=3600"
Side = Annotated[int, Query(ge=LEAST_SIDE, le=MOST_SIDE, description="Of the longer side, in pixels, at most.")]
router = APIRouter(prefix="/api", tags=["images"])


@router.get(
    "/images/{key}",
    response_class=Response,
    responses={
        200: {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}},
        304: {"description": "The thumbnail with this tag is still right."},
        **document_statuses(404, 422, 503),
    },
)
async def image(
    service: Here, key: Key, side: Side = SIDE, if_none_match: Annotated[str | None, Header()] = None
) -> Response:
    """Show a small version of an image of the index, without its metadata."""
    with service.drawings.place():
        tag, content = await service.drawings.work(small, service, key, side, if_none_match or "")
    headers = {"ETag": f'"{tag}"', "Cache-Control": CACHED}
    if content is None:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type="image/jpeg")


def small(service: Service, key: str, side: int, seen: str) -> tuple[str, bytes | None]:
    """Return the tag of a thumbnail, and the thumbnail unless its tag was seen before."""
    searched = service.watched.now
    place = place_of(searched.entry(key), searched.gallery.about.root, side)
    return place.tag, None if place.tag in seen else service.thumbnails.make(place, side)
