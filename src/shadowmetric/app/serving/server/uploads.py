"""Bodies in memory, within limits of bytes, rate and time; and the image in each, within limits of pixels.

Only formats that pillow decodes itself are read: for others (EPS) it starts programs and writes files. The pixels are
counted by the header, before anything is decoded; so are those that scaling the short side of a long image makes.

Memory: the bytes once, then the decoded image (`runtime/images.py`).
"""

import asyncio
import contextlib
import io
import re
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager

import numpy as np
from fastapi import Request
from PIL import Image, UnidentifiedImageError
from starlette.requests import ClientDisconnect

from shadowmetric.app.serving.server.refusals import CLOSE, RETRY, Refused
from shadowmetric.app.serving.server.settings import ServeSettings
from shadowmetric.errors import BrokenImage
from shadowmetric.runtime.images import FORMATS, Shape, open_image

FORM = b"content-disposition: form-data"
SEND = "send a JPEG, PNG or WebP file"
DIGITS = 18  # of a length that is a number of bytes
DRAINED_SECONDS, LAST_DRAINED_SECONDS = 2.0, 0.5  # the latter while the server stops
OBJECT = re.compile(r" ?<[^>]* object at 0x[0-9a-f]+>")


class Upload:
    """A body that arrives."""

    def __init__(self, begun: float):
        self.begun, self.size = begun, 0
        self.limit: asyncio.Timeout | None = None
        self.given_up = False

    def rate(self, now: float) -> float:
        """Return how many bytes a second have come, as if the first had taken a second."""
        return self.size / (now - self.begun + 1)


class Uploads:
    """Bodies in memory, from their first byte to the answer. Past the limit, those that arrive slowest are given up."""

    def __init__(self, settings: ServeSettings):
        self.settings = settings
        self.held = 0
        self.arriving: set[Upload] = set()

    @contextlib.asynccontextmanager
    async def receive(self, request: Request, arrival: AbstractContextManager[None]) -> AsyncIterator[io.BytesIO]:
        """Yield the body of a request, which counts as held for as long as it is needed."""
        upload = Upload(asyncio.get_running_loop().time())
        try:
            with arrival:
                self.arriving.add(upload)
                body = await self.body_of(request, upload)
                self.arriving.discard(upload)
            yield body
        finally:
            self.arriving.discard(upload)
            self.held -= upload.size

    async def body_of(self, request: Request, upload: Upload) -> io.BytesIO:
        """Return a body, or refuse it as soon as it is known to be too large or too slow."""
        settings, clock = self.settings, asyncio.get_running_loop()
        length = request.headers.get("content-length", "")
        if length.isdecimal() and (len(length) > DIGITS or int(length) > settings.most_bytes):
            raise too_large(settings)
        body, end, enough = io.BytesIO(), upload.begun + settings.seconds, settings.least_rate * settings.idle_seconds
        came = 0  # within the seconds that run
        try:
            async with asyncio.timeout(settings.idle_seconds) as upload.limit:
                async for part in request.stream():
                    if upload.size + len(part) > settings.most_bytes:
                        raise too_large(settings)
                    self.hold(upload, len(part))
                    if upload.given_up:
                        raise TimeoutError
                    body.write(part)
                    came += len(part)
                    if came >= enough:
                        came = 0
                        upload.limit.reschedule(min(clock.time() + settings.idle_seconds, end))
        except TimeoutError:
            if upload.given_up:
                raise Refused(503, "too many uploads arrive at once; try again in a second.", RETRY | CLOSE) from None
            raise Refused(408, "the upload did not arrive in time; try again.", CLOSE) from None
        body.seek(0)
        return body

    def hold(self, upload: Upload, count: int) -> None:
        """Count bytes, and give up the slowest uploads if there are too many."""
        upload.size += count
        self.held += count
        now = asyncio.get_running_loop().time()
        while self.held > self.settings.most_bytes_held and self.arriving:
            slowest = min(self.arriving, key=lambda one: one.rate(now))
            self.arriving.discard(slowest)
            self.held -= slowest.size
            slowest.size, slowest.given_up = 0, True
            if slowest.limit is not None:
                slowest.limit.reschedule(now)


def too_large(settings: ServeSettings) -> Refused:
    """Return the refusal of too many bytes."""
    return Refused(413, f"the upload has more than {settings.max_upload_mb} MB; send a smaller image.")


async def drain_body(request: Request, seconds: float = DRAINED_SECONDS) -> bool:
    """Read on without keeping anything: a browser that is still sending may not see the answer. Whether all is read."""
    if "expect" in request.headers:  # it waits to be asked for its body
        return False
    try:
        async with asyncio.timeout(seconds):
            async for _ in request.stream():
                pass
    except (TimeoutError, ClientDisconnect):
        return False
    except RuntimeError:  # starlette's: it was read to its end before
        return True
    return True


def square_of(body: io.BytesIO, shape: Shape, most_pixels: int) -> np.ndarray:
    """Return the square of pixels, (1, channels, size, size), of the image in a body."""
    try:
        image = read_image(body, "the upload", most_pixels)
    except BrokenImage as error:
        raise Refused(422, str(error)) from None
    long, short = max(image.size), min(image.size)
    if shape.resize * shape.resize * long // max(short, 1) > max(most_pixels, shape.resize**2):
        raise Refused(422, f"the upload has {image.width} × {image.height} pixels, too narrow a strip to search by.")
    return shape.square(image)[None]


def read_image(body: io.BytesIO, name: str, most_pixels: int) -> Image.Image:
    """Return an image of a format that is decoded in this process; BrokenImage is its refusal, in one sentence."""
    try:
        Image.open(body, formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise BrokenImage(f"{name} has too many pixels; the most is {most_pixels:,}.") from None
    except UnidentifiedImageError:
        if FORM in body.getbuffer()[:1000].tobytes().lower():
            raise BrokenImage(
                f"{name} is a form; send the bytes of the image alone (curl --data-binary @FILE)."
            ) from None
        what = f"{name} is no image; {SEND}." if body.getbuffer().nbytes else f"{name} is empty; {SEND}."
        raise BrokenImage(what) from None
    except Exception:
        raise BrokenImage(f"{name} is a damaged image; {SEND}.") from None
    body.seek(0)
    try:
        return open_image(body, name, most_pixels)
    except BrokenImage as error:
        raise BrokenImage(OBJECT.sub("", str(error))) from None
