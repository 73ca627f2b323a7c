"""Arrays in the IDX format of MNIST: bytes 0, 0, a type, how many dimensions, each dimension as four bytes, the values.

Only bytes (type 8) are read, from a plain or a gzipped file. The length must be exactly what the dimensions say.
Memory: the array.
"""

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np

from shadowmetric.errors import DataMistake

BYTES = 8
MOST_BYTES = 2**31  # of one array: more is refused unread


def idx_names(name: str) -> list[str]:
    """Return where a file such as `train-images-idx3-ubyte` may be: plain or gzipped, with a dot before idx, and in a
    folder of its own name, as archives are unpacked."""
    spellings = (name, name.replace("-idx", ".idx"))
    return [f"{place}{one}{end}" for place in ("", f"{name}/") for one in spellings for end in ("", ".gz")]


def find_idx(folder: Path, name: str) -> Path | None:
    """Return the plain file, or else the gzipped one, or None."""
    return next((path for path in (folder / one for one in idx_names(name)) if path.is_file()), None)


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """Return the array of a file, uint8, with so many dimensions."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            shape = _shape(path, file.read(4 + 4 * dimensions), dimensions)
            values = np.empty(int(np.prod(shape)), np.uint8)
            count = file.readinto(values.data)
            more = file.read(1)
    except (OSError, EOFError, zlib.error) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise DataMistake(f"{path} cannot be read ({reason}); get it again.") from None
    if count != len(values) or more:
        state = "more" if more else f"only {count:,}"
        raise DataMistake(f"{path} has {state} of the {len(values):,} values of its shape {shape}; get it again.")
    return values.reshape(shape)


def _shape(path: Path, header: bytes, dimensions: int) -> tuple[int, ...]:
    """Return the shape that a header states, or refuse the header."""
    wanted = bytes((0, 0, BYTES, dimensions))
    if len(header) < 4 + 4 * dimensions or header[:4] != wanted:
        raise DataMistake(
            f"{path} begins with {header[:4].hex(' ') or 'nothing'} and not with {wanted.hex(' ')}, so it is no "
            f"IDX file of {dimensions} dimensions; get it again."
        )
    shape = struct.unpack(f">{dimensions}I", header[4:])
    size = int(np.prod([int(side) for side in shape], dtype=object))
    if size > MOST_BYTES:
        raise DataMistake(f"{path} claims the shape {shape}, more than {MOST_BYTES:,} bytes; get it again.")
    return shape
