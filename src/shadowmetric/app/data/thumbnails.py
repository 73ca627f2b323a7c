"""Small images for a page: single ones, and many on one sheet.

An image comes through the data room's reading and is shrunk, never enlarged, until its long side fits. WebP has
almost no header, which matters for images of a kilobyte; tiny ones (digits of 8 pixels) are kept without loss.

Memory: an image at a time, and the sheet: tiles × side² × 3 bytes.
"""

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from shadowmetric.app.data.images import ImageSource

TINY = 32  # pixels of the long side up to which nothing is lost
QUALITY = 72


@dataclass(frozen=True)
class Sheet:
    """Images in rows and columns of square tiles; the first is at the top left."""

    image: str  # a data: address
    side: int  # pixels of a tile
    columns: int
    rows: int


def thumbnail(images: ImageSource, number: int, side: int) -> str:
    """Return one image as a data: address."""
    return address(small(images, number, side), side)


def sheet_of(images: ImageSource, numbers: Sequence[int], side: int, columns: int | None = None) -> Sheet:
    """Return images on one sheet, each in the middle of its tile; as many columns as rows, unless it is said."""
    tiles = [small(images, number, side) for number in numbers]
    side = max(max(tile.size) for tile in tiles)
    columns = columns or math.ceil(math.sqrt(len(tiles)))
    rows = math.ceil(len(tiles) / columns)
    whole = Image.new("RGB", (columns * side, rows * side), (127, 127, 127))
    for place, tile in enumerate(tiles):
        left, top = place % columns * side, place // columns * side
        whole.paste(tile, (left + (side - tile.width) // 2, top + (side - tile.height) // 2))
    return Sheet(address(whole, side), side, columns, rows)


def small(images: ImageSource, number: int, side: int) -> Image.Image:
    """Return an image whose long side is at most so many pixels."""
    pixels = images.read(number).numpy()
    image = Image.fromarray(pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    image.thumbnail((side, side))
    return image


def address(image: Image.Image, side: int) -> str:
    """Return the image's bytes as an address that needs no network."""
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=QUALITY, method=6, lossless=min(side, max(image.size)) < TINY)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
