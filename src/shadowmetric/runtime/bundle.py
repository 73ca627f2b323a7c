"""A bundle: a folder with the model, the index, the threshold and this program.

    model.onnx         squares of pixels -> rows of length 1
    index.shadowmx     rows of images that this very model made
    calibration.json   what cosine means "the same", measured with this model
    digests.json       the SHA-256 of model and threshold; the index has its own inside
    device/            this program

Memory: the model, and the pages of the index that are in use.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .catalog import CatalogDecision
from .digests import Digests
from .entries import About, Hit
from .errors import BrokenImage, Mistake
from .exact_cosines import cosine
from .images import check_file, open_image
from .index_file import Contents, read_index, write_index
from .model import OnnxModel
from .search import nearest
from .threshold import EVEN, Calibration, Decision, calibration_from
from .votes import VOTERS, ClassVote, count_votes

MODEL, INDEX, CALIBRATION = "model.onnx", "index.shadowmx", "calibration.json"
REMEDY = "make the bundle again"
MOST_BYTES = 2**29  # of one image's file


class Image(NamedTuple):
    """An image that was read."""

    name: str
    digest: bytes  # SHA-256 of the file
    row: np.ndarray  # (dim,) float32


class Answer(NamedTuple):
    """What was found for an image."""

    hits: list[Hit]
    classes: list[ClassVote]  # best first; none if one class was searched
    decision: CatalogDecision | None  # none without a threshold, too


class Added(NamedTuple):
    """What was entered into an index."""

    new: int
    replaced: int  # of paths that were there, with another content or class
    left_out: list[str]  # a sentence on each that was there


class Bundle:
    """The model, the index and the threshold of a folder; each is read when it is first needed."""

    def __init__(self, folder: Path, threads: int | None = None):
        if not (folder / MODEL).is_file():
            raise Mistake(f"{folder} is no bundle: there is no {MODEL} in it; name one by --bundle.")
        self.folder = folder
        self.digests = Digests(folder, REMEDY)
        self.digests.check(folder / MODEL)
        self.model = OnnxModel(folder / MODEL, threads)

    def index(self) -> tuple[About, Contents]:
        """Return the index, if the model made it."""
        about, contents = read_index(self.folder / INDEX)
        if (about.fingerprint, about.digest) != (self.model.about.fingerprint, self.model.about.digest):
            raise Mistake(f"{self.folder / INDEX} was made by another model than {MODEL} beside it; make both anew.")
        return about, contents

    def calibration(self) -> Calibration:
        """Return the threshold, if it was measured with the model."""
        file = self.folder / CALIBRATION
        try:
            payload = json.loads(self.digests.read(file))
        except Mistake:
            raise
        except (OSError, RecursionError, ValueError) as error:
            raise Mistake(f"{file} cannot be read ({error}); {REMEDY}.") from None
        calibration = calibration_from(payload, str(file), REMEDY)
        if calibration.fingerprint != self.model.about.fingerprint:
            raise Mistake(f"{file} was measured with another model than {MODEL} beside it; make both anew.")
        return calibration

    def read(self, name: str) -> Image:
        """Embed the image in a file, or raise BrokenImage."""
        try:
            check_file(Path(name), name)
            if (size := Path(name).stat().st_size) > MOST_BYTES:
                raise BrokenImage(f"{name} has {size:,} bytes; the most is {MOST_BYTES:,}.")
            stored = Path(name).read_bytes()
        except (OSError, ValueError) as error:
            if isinstance(error, BrokenImage):
                raise
            reason = getattr(error, "strerror", None) or error
            raise BrokenImage(f"{name} cannot be read ({reason}).") from None
        square = self.model.about.shape.square(open_image(BytesIO(stored), name))
        return Image(name, hashlib.sha256(stored).digest(), self.model.embed(square[None])[0])

    def search(
        self, image: Image, top: int, label: str | None, index: tuple[About, Contents], rate: float | None = None
    ) -> Answer:
        """Return the most similar images of the index, the classes they vote for, and whether the image is in it.

        rate: of images that show nothing of the index, the share that may pass for something that is there.
        """
        about, contents = index
        if label is not None:
            return Answer(nearest(contents, image.row[None], top, label)[0], [], None)
        hits = nearest(contents, image.row[None], max(top, VOTERS))[0]
        decision = about.catalog.decide(hits[0].similarity, rate) if hits and about.catalog is not None else None
        return Answer(hits[:top], count_votes(hits), decision)

    def verify(self, first: Image, second: Image, rate: float | None = None, prior: float = EVEN) -> Decision:
        """Return whether two images show the same."""
        return self.calibration().decide(cosine(first.row, second.row), rate, prior)

    def add(self, images: list[Image], label: str | None) -> Added:
        """Add images to the index, which takes the old one's place at once; those of known paths are replaced."""
        with hold_lock(self.folder / f".{INDEX}.lock"):
            about, contents = self.index()
            numbers = {path: number for number, path in enumerate(contents.paths)}
            known = {
                one.name: (bytes(contents.hashes[number]), contents.entry(number).label)
                for one in images
                if (number := numbers.get(one.name)) is not None
            }
            wanted = {one.name: one for one in images}
            fresh = [one for one in wanted.values() if known.get(one.name) != (one.digest, label)]
            if fresh:
                write_index(self.folder / INDEX, about, with_images(contents, fresh, label))
        replaced = sum(one.name in known for one in fresh)
        left = [name for name in wanted if known.get(name) == (wanted[name].digest, label)]
        sentences = [f"{name} is in the index already, with the same content and class." for name in left]
        return Added(len(fresh) - replaced, replaced, sentences)


def with_images(contents: Contents, fresh: list[Image], label: str | None) -> Contents:
    """Return an index with images more, ordered by path; those of a known path take the old ones' place."""
    names = {one.name for one in fresh}
    stay = [number for number, path in enumerate(contents.paths) if path not in names]
    classes = tuple(sorted({*contents.classes} | (set() if label is None else {label})))
    place = np.array([classes.index(name) for name in contents.classes] + [-1], np.int32)  # -1 finds the last
    own = -1 if label is None else classes.index(label)
    paths = [contents.paths[number] for number in stay] + [one.name for one in fresh]
    order = sorted(range(len(paths)), key=paths.__getitem__)
    rows = np.concatenate([contents.rows[stay], np.array([one.row for one in fresh], np.float16)])
    labels = np.concatenate([place[contents.labels[stay]], np.full(len(fresh), own, np.int32)])
    digests = np.frombuffer(b"".join(one.digest for one in fresh), np.uint8).reshape(-1, 32)
    hashes = np.concatenate([contents.hashes[stay], digests])
    return Contents(rows[order], labels[order], hashes[order], [paths[number] for number in order], classes)


@contextlib.contextmanager
def hold_lock(file: Path) -> Iterator[None]:
    """Let one process at a time in; the system opens the lock of one that was killed."""
    try:
        import fcntl
    except ImportError:  # no Unix: whoever adds from two processes at once may lose one of the two
        yield
        return
    with file.open("w") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
