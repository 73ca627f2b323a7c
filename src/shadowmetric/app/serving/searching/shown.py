"""The file of an indexed image, if it may be shown: one below the indexed folder, links followed.

An index is a file that somebody may have sent, so its paths are not trusted.
"""

from pathlib import Path

from PIL import Image

from shadowmetric.errors import BrokenImage
from shadowmetric.runtime.images import open_image

MOST_PIXELS = 2**26


def image_file(root: str, path: str) -> Path | None:
    """Return the file of an image, or None if there is none below the root."""
    try:
        if not Path(root).is_absolute():  # nobody said which folder
            return None
        inside = Path(root).resolve()
        file = (inside / path).resolve()
        return file if file.is_relative_to(inside) and file.is_file() else None
    except (OSError, RuntimeError, ValueError):  # loops of links, NUL bytes
        return None


def small_image(root: str, path: str, side: int) -> Image.Image | None:
    """Return an image whose long side is at most so many pixels, or None if it cannot be shown."""
    file = image_file(root, path)
    if file is None:
        return None
    try:
        image = open_image(file, most_pixels=MOST_PIXELS)
    except BrokenImage:
        return None
    image.thumbnail((side, side))
    return image
