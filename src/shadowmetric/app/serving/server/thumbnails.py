"""Small images of the index: encoded anew without metadata, and kept in memory while there is room.

Only files whose true place, symbolic links followed, is below the indexed folder are read: an index may be forged, or
a link may have been put into the folder later. A thumbnail that is kept goes when its file changes.

Memory: at most `KEPT_BYTES`, and the images that are being decoded.
"""

import hashlib
import io
import threading
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from shadowmetric.app.serving.searching.shown import image_file
from shadowmetric.app.serving.server.refusals import Refused
from shadowmetric.app.serving.server.uploads import read_image
from shadowmetric.errors import BrokenImage
from shadowmetric.runtime.entries import Entry

KEPT_BYTES = 64_000_000
MOST_FILE_BYTES = 500_000_000  # of one image that is read
LEAST_SIDE, SIDE, MOST_SIDE = 16, 256, 1024
QUALITY = 85


class Place(NamedTuple):
    """A file that may be shown, and its state."""

    path: Path
    tag: str


class Thumbnails:
    """Thumbnails of one side or another, the ones asked for last kept."""

    def __init__(self, most_pixels: int, kept_bytes: int = KEPT_BYTES):
        self.most_pixels, self.kept_bytes = most_pixels, kept_bytes
        self.kept: OrderedDict[str, bytes] = OrderedDict()
        self.bytes = 0
        self.lock = threading.Lock()

    def find(self, tag: str) -> bytes | None:
        """Return a thumbnail that is kept."""
        with self.lock:
            if tag in self.kept:
                self.kept.move_to_end(tag)
            return self.kept.get(tag)

    def make(self, place: Place, side: int) -> bytes:
        """Return the thumbnail of a file."""
        if (thumbnail := self.find(place.tag)) is None:
            thumbnail = render_thumbnail(place.path, side, self.most_pixels)
            self.keep(place.tag, thumbnail)
        return thumbnail

    def keep(self, tag: str, thumbnail: bytes) -> None:
        """Keep a thumbnail, and let go of those not asked for the longest."""
        with self.lock:
            self.bytes += len(thumbnail) - len(self.kept.pop(tag, b""))
            self.kept[tag] = thumbnail
            while self.bytes > self.kept_bytes:
                self.bytes -= len(self.kept.popitem(last=False)[1])


def place_of(entry: Entry, root: str, side: int) -> Place:
    """Return the file of an image, if it is below the root; the tag changes with the file."""
    path = image_file(root, entry.path)
    if path is None:
        raise image_not_found()
    try:
        status = path.stat()
    except OSError:  # it went a moment ago
        raise image_not_found() from None
    state = f"{entry.key} {side} {status.st_ino} {status.st_mtime_ns} {status.st_size}"
    return Place(path, hashlib.sha256(state.encode()).hexdigest()[:32])


def image_not_found() -> Refused:
    """Return the refusal of an image that is not shown."""
    return Refused(404, "this image is not in the indexed folder any more.")


def render_thumbnail(path: Path, side: int, most_pixels: int) -> bytes:
    """Return a JPEG whose longer side is at most `side`."""
    try:
        with path.open("rb") as file:
            body = io.BytesIO(file.read(MOST_FILE_BYTES))
        image = read_image(body, "this image of the index", most_pixels)
    except OSError:
        raise image_not_found() from None
    except BrokenImage as error:
        raise Refused(404, str(error)) from None
    image.thumbnail((side, side), Image.Resampling.BICUBIC, reducing_gap=2.0)
    image.info.clear()  # pillow would write a comment again
    out = io.BytesIO()
    image.save(out, "JPEG", quality=QUALITY)
    return out.getvalue()
