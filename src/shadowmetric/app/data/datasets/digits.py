"""Digits: 1,797 small images of handwritten digits inside the package, so that there is always something to train on.

Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, 1998,
https://archive.ics.uci.edu/dataset/80, license CC BY 4.0: its test part, written by 13 people, as scikit-learn has
it. It lies in `digits.npz` as uint8 from 0 to 16, made by

```python
import numpy
import sklearn.datasets

digits = sklearn.datasets.load_digits()
numpy.savez_compressed("digits.npz", images=digits.images.astype("u1"), labels=digits.target.astype("u1"))
```

and is scaled to 0 to 255 when it is read. There is no official split of these, so here is one: of each class, in the
order of the file, the first two thirds train and the rest test. Images that look alike stand near each other in the
file, perhaps those of one hand, so this is harder than a random split: the nearest training image has the right
class for 96.5 % of the test images; after a random split in the same shares, for 98.5 % (mean of 20).
"""

from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import torch

from shadowmetric.app.data.dataset import STANDARD, Dataset, Reader, Split, check_counts
from shadowmetric.app.data.images import ArrayImages

INK = 16  # the darkest value in the file
WHITE = 255


def read_digits(root: Path, allow_partial: bool = False) -> Dataset:
    """Return the embedded images; the data root is of no matter."""
    with as_file(files("shadowmetric.app.data.datasets") / "digits.npz") as path, np.load(path) as arrays:
        images, labels = arrays["images"], arrays["labels"].astype(np.int64)
    scaled = np.rint(images * (WHITE / INK)).astype(np.uint8)
    whole = Split(ArrayImages(torch.from_numpy(scaled[:, None]), "digit"), labels)
    first = first_two_thirds(labels)
    dataset = Dataset(
        name="digits",
        kind=STANDARD,
        train=whole.take(np.flatnonzero(first)),
        test=whole.take(np.flatnonzero(~first)),
        classes=tuple("0123456789"),
        mirrors=False,
        notes=("Split: of each class, in the order of the file, the first two thirds train and the rest test.",),
    )
    return check_counts(DIGITS, dataset, allow_partial)


def first_two_thirds(labels: np.ndarray) -> np.ndarray:
    """Return which images are among the first two thirds of their class."""
    mask = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        mask[members[: 2 * len(members) // 3]] = True
    return mask


DIGITS = Reader(
    name="digits",
    title="Handwritten digits",
    folder="",
    kind=STANDARD,
    images={"train": 1195, "test": 602},
    classes={"train": 10, "test": 10},
    source="this package",
    terms="CC BY 4.0",
    read=read_digits,
)
