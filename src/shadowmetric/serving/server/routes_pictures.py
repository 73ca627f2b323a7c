"""Thumbnails of the pictures of the index."""

from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import Response

from shadowmetric.serving.server.refusals import documented
from shadowmetric.serving.server.routes_search import Key
from shadowmetric.serving.server.service import Here, Service
from shadowmetric.serving.server.thumbnails import LEAST_SIDE, MOST_SIDE, SIDE, Place, place_of

CACHED = "private, max-age=3600"
Side = Annotated[int, Query(ge=LEAST_SIDE, le=MOST_SIDE, description="Of the longer side, in pixels, at most.")]
router = APIRouter(prefix="/api", tags=["pictures"])


@router.get(
    "/pictures/{key}",
    response_class=Response,
    responses={
        200: {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}},
        304: {"description": "The thumbnail with this tag is still right."},
        **documented(404, 422, 503),
    },
)
async def picture(
    service: Here, key: Key, side: Side = SIDE, if_none_match: Annotated[str | None, Header()] = None
) -> Response:
    """Show a small version of a picture of the index, without its metadata."""
    with service.drawings.place():
        place = await service.drawings.work(located, service, key, side)
        headers = {"ETag": f'"{place.tag}"', "Cache-Control": CACHED}
        if if_none_match is not None and place.tag in if_none_match:
            return Response(status_code=304, headers=headers)
        found = service.thumbnails.find(place.tag)
        if found is None:
            found = await service.drawings.work(service.thumbnails.make, place, side)
        return Response(found, headers=headers, media_type="image/jpeg")


def located(service: Service, key: str, side: int) -> Place:
    """Return the file of a key."""
    searched = service.watched.now
    return place_of(searched.entry(key), searched.gallery.about.root, side)
