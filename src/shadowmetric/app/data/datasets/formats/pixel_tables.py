"""Tables of small gray images, as Kaggle has MNIST: a label and the pixels of an image in each line.

A first line of headings is passed over. Memory: the values twice.
"""

from pathlib import Path

import numpy as np

from shadowmetric.errors import DataMistake


def read_table(path: Path, pixels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels, and the pixels (images, pixels) uint8, of a table."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            first = file.readline()
            if first.split(",", 1)[0].strip().strip('"').isdigit():
                file.seek(0)
            values = np.loadtxt(file, np.uint8, delimiter=",", ndmin=2)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise DataMistake(f"{path} is no table of labels and pixels from 0 to 255 ({reason}); get it again.") from None
    if values.shape[1] != pixels + 1:
        raise DataMistake(f"{path} has lines of {values.shape[1]:,} values, not of {pixels + 1:,}; get it again.")
    return values[:, 0], values[:, 1:]
