"""What the routes share: the index that is searched now, the lines of those who wait, counts, and thumbnails."""

import math
from typing import Annotated

from fastapi import Depends, Request

from shadowmetric.app.serving.galleries.gallery import Gallery
from shadowmetric.app.serving.model import Model
from shadowmetric.app.serving.server.line import Line
from shadowmetric.app.serving.server.metrics import Metrics
from shadowmetric.app.serving.server.refusals import Refused
from shadowmetric.app.serving.server.settings import ServeSettings
from shadowmetric.app.serving.server.thumbnails import Thumbnails
from shadowmetric.app.serving.server.uploads import Uploads
from shadowmetric.app.serving.server.watched import IndexFile, Watched

A_PAGE = 8  # times as many thumbnails may wait as searches: every answer brings a page full of them


class Service:
    """One application's own things."""

    def __init__(self, gallery: Gallery, model: Model, settings: ServeSettings, file: IndexFile | None = None):
        self.settings = settings
        self.watched = Watched(gallery, model, file)
        self.metrics = Metrics(self.images)
        self.searches = Line("search", settings.at_once, settings.waiting)
        self.uploads = Uploads(settings)
        self.drawings = Line("draw", settings.at_once, A_PAGE * (settings.waiting + 1))
        self.thumbnails = Thumbnails(settings.max_pixels)
        self.stopping = False

    def images(self) -> float:
        """Return how many images are searched, or that nobody knows."""
        try:
            return float(self.watched.now.describe().images)
        except Refused:
            return math.nan

    def stop(self) -> None:
        """Refuse whoever comes, arrives or waits; what is at work is finished."""
        self.stopping = True
        self.searches.stop()
        self.drawings.stop()

    def close(self) -> None:
        """Give back the threads."""
        self.searches.close()
        self.drawings.close()


def service_of(request: Request) -> Service:
    """Return the service of the application that was asked."""
    return request.app.state.service


Here = Annotated[Service, Depends(service_of)]
