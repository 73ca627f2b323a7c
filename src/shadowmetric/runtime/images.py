"""From a file, or bytes, to an image: upright, in gray or color, 8 bits a channel. `shape.py` makes its square.

A phone's orientation mark is obeyed, transparency is laid on white, 16-bit gray is scaled to 8.

Files are read by content, not by extension, and refused as a whole if they cannot be read to the end. An image of
more pixels than allowed is refused by its header, before anything is decoded.

Memory: the decoded image, and copies while it is turned, laid on white or converted: up to 16 bytes a pixel.
"""

import stat
import warnings
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, UnidentifiedImageError
from PIL.ExifTags import Base

from .errors import BrokenImage
from .shape import MOST_PIXELS
from .shape import Shape as Shape

FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")  # no EPS: it starts a program
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # by EXIF orientation

warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # such images are refused here, in a sentence


def open_image(
    source: Path | BinaryIO | BytesIO, name: str | None = None, most_pixels: int = MOST_PIXELS
) -> Image.Image:
    """Return an image, decoded and upright, in gray (L) or color (RGB); `name` stands in the refusal."""
    name = str(source) if name is None else name
    try:
        if isinstance(source, Path):
            check_file(source, name)
        with _open(source) as file:
            if file.width * file.height > most_pixels:
                raise BrokenImage(f"{name} has {file.width} × {file.height} pixels; the most is {most_pixels:,}.")
            image = _eight_bits(_upright(file))
            return image if image.mode == "L" else image.convert("RGB")
    except BrokenImage:
        raise
    except FileNotFoundError:
        raise BrokenImage(f"{name} is not there.") from None
    except Exception as error:  # whatever a decoder makes of damaged bytes
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        if isinstance(error, UnidentifiedImageError):  # its words name an address in memory, or the file again
            reason = "its bytes are of no known format"
        raise BrokenImage(f"{name} cannot be read as an image ({reason}).") from None


def check_file(path: Path, name: str) -> None:
    """Refuse what is no file: a folder has no pixels, and a pipe would be waited for."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise BrokenImage(f"{name} is a folder; name an image.")
    if not stat.S_ISREG(mode):
        raise BrokenImage(f"{name} is a pipe or a device and no file; name an image.")


def _open(source: Path | BinaryIO | BytesIO) -> Image.Image:
    if Image.MAX_IMAGE_PIXELS is not None:  # pillow refuses twice this, whatever is asked for here
        Image.MAX_IMAGE_PIXELS = max(Image.MAX_IMAGE_PIXELS, MOST_PIXELS)
    return Image.open(source, formats=FORMATS)


def _upright(image: Image.Image) -> Image.Image:
    """Return an image turned as its orientation mark says; the rest of its EXIF may be damaged."""
    image.load()
    try:
        turn = TURNS.get(image.getexif().get(Base.Orientation, 1))
    except Exception:  # it is no EXIF at all
        turn = None
    return image if turn is None else image.transpose(turn)


def _eight_bits(image: Image.Image) -> Image.Image:
    """Return an image without transparency and with 8 bits a channel."""
    if image.mode == "F" or image.mode.startswith("I"):
        values = np.nan_to_num(np.array(image, np.float64))
        if image.mode == "F":  # 0 to 1, or 0 to 255
            values *= 255 if values.max() <= 1 else 1
        elif image.mode != "I" or values.max() > 255:  # I;16, or I with 16 bits in use
            values = values.clip(0, 65535) // 256
        return Image.fromarray(values.clip(0, 255).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        on_white = Image.new("RGBA", image.size, "white")
        on_white.alpha_composite(image.convert("RGBA"))
        return on_white
    return image
