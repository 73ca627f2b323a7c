"""A body in memory, within limits of bytes and time; and the image in it, within limits of pixels.

Only formats that pillow decodes itself are read: for others (EPS) it starts programs and writes files. The pixels are
counted by the header, before anything is decoded; so are those that scaling the short side of a long image makes.

Memory: the bytes once, then the decoded image (`runtime/images.py`).
"""

import asyncio
import io
import re

import numpy as np
from fastapi import Request
from PIL import Image, UnidentifiedImageError
from starlette.requests import ClientDisconnect

from shadowmetric.app.serving.server.refusals import Refused
from shadowmetric.app.serving.server.settings import ServeSettings
from shadowmetric.errors import BrokenImage
from shadowmetric.runtime.images import FORMATS, Shape, open_image

FORM = b"content-disposition: form-data"
SEND = "send a JPEG, PNG or WebP file"
DIGITS = 18  # of a length that is a number of bytes
DRAINED_SECONDS, LAST_DRAINED_SECONDS = 2.0, 0.5  # the latter while the server stops
OBJECT = re.compile(r" ?<[^>]* object at 0x[0-9a-f]+>")


async def body_of(request: Request, settings: ServeSettings) -> io.BytesIO:
    """Return the body of a request, or refuse it as soon as it is known to be too large or too slow."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and (len(length) > DIGITS or int(length) > settings.most_bytes):
        raise too_large(settings)
    body, clock = io.BytesIO(), asyncio.get_running_loop()
    end = clock.time() + settings.seconds
    try:
        async with asyncio.timeout(settings.idle_seconds) as limit:
            async for part in request.stream():
                if body.tell() + len(part) > settings.most_bytes:
                    raise too_large(settings)
                body.write(part)
                limit.reschedule(min(clock.time() + settings.idle_seconds, end))
    except TimeoutError:
        raise Refused(408, "the upload did not arrive in time; try again.", {"Connection": "close"}) from None
    body.seek(0)
    return body


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
