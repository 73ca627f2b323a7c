"""The file of an indexed picture, if it may be shown: one below the indexed folder, links followed.

An index is a file that somebody may have sent, so its paths are not trusted.
"""

from pathlib import Path

from PIL import Image

from shadowmetric.errors import BrokenImage
from shadowmetric.runtime.pictures import open_picture

MOST_PIXELS = 2**26


def picture_file(root: str, path: str) -> Path | None:
    """Return the file of a picture, or None if there is none below the root."""
    try:
        if not Path(root).is_absolute():  # nobody said which folder
            return None
        inside = Path(root).resolve()
        file = (inside / path).resolve()
        return file if file.is_relative_to(inside) and file.is_file() else None
    except (OSError, RuntimeError, ValueError):  # loops of links, NUL bytes
        return None


def small_picture(root: str, path: str, side: int) -> Image.Image | None:
    """Return a picture whose long side is at most so many pixels, or None if it cannot be shown."""
    file = picture_file(root, path)
    if file is None:
        return None
    try:
        picture = open_picture(file, most_pixels=MOST_PIXELS)
    except BrokenImage:
        return None
    picture.thumbnail((side, side))
    return picture
