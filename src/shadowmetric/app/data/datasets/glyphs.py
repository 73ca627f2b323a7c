"""Glyphs: 5,871 images of 434 characters in sixteen typefaces, inside the package: find a character never seen before.

Letters, digits and signs of many scripts, none a twin of another (no A/Α/А, no O/0), each in up to four styles of
DejaVu Sans, DejaVu Sans Mono, DejaVu Serif and STIX, at a size, a tilt of up to 20° and a place of its own; 28 × 28,
gray. In the order of code points every second character trains and the others test, so the classes of the two sides
are disjoint: a test image is searched among the other test images, where the same character stands in other faces.

It lies in `glyphs.npz` as uint8 from 0 to 16, drawn by `tools/draw_glyphs.py` and white on black when it is read, as
in MNIST. The fonts' licenses, Bitstream Vera's (DejaVu) and SIL Open Font License 1.1 (STIX), bind the fonts and not
what is drawn with them; the images themselves are under this package's license.
"""

from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import torch

from shadowmetric.app.data.dataset import ZERO_SHOT, Dataset, Reader, Split, check_counts
from shadowmetric.app.data.images import ArrayImages

INK = 16  # the darkest value in the file
WHITE = 255


def read_glyphs(root: Path, allow_partial: bool = False) -> Dataset:
    """Return the embedded images; the data root is of no matter."""
    with as_file(files("shadowmetric.app.data.datasets") / "glyphs.npz") as path, np.load(path) as arrays:
        ink, characters, faces = arrays["ink"], arrays["characters"], arrays["faces"]
        face_names = arrays["face_names"]
    points, labels = np.unique(characters, return_inverse=True)
    scaled = np.rint(ink * (WHITE / INK)).astype(np.uint8)
    names = [f"{chr(point)} in {face_names[face]}" for point, face in zip(characters, faces, strict=True)]
    whole = Split(ArrayImages(torch.from_numpy(scaled[:, None]), names=tuple(names)), labels.astype(np.int64))
    dataset = Dataset(
        name="glyphs",
        kind=ZERO_SHOT,
        train=whole.take(np.flatnonzero(labels % 2 == 0)),
        test=whole.take(np.flatnonzero(labels % 2 == 1)),
        classes=tuple(map(chr, points)),
        mirrors=False,
        notes=("Split: in the order of code points every second character trains, the others test.",),
    )
    return check_counts(GLYPHS, dataset, allow_partial)


GLYPHS = Reader(
    name="glyphs",
    title="Characters in sixteen typefaces",
    folder="",
    kind=ZERO_SHOT,
    images={"train": 2940, "test": 2931},
    classes={"train": 217, "test": 217},
    source="this package",
    terms="MIT",
    read=read_glyphs,
)
