"""Folders of small PNG files, models that count what they embed, small indexes and an untrained run."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shadowmetric.app.cli import main
from shadowmetric.app.serving.indexing.build import build_index
from shadowmetric.app.serving.indexing.listing import list_images
from shadowmetric.runtime.entries import About
from shadowmetric.runtime.images import Shape
from shadowmetric.runtime.index_file import MAGIC, START, VERSION, Contents, write_index

SHAPE = Shape(8, 8, 1)
DIM = 6
ESCAPE = "\x1b"
HOSTILE = (
    "line\nbreak.png",
    "quote\"and'quote.png",
    "<img src=x onerror=alert(1)>.png",
    "<script>alert(2)<!--.png",
    "&lt;b&gt; {{ 7 * 7 }}.png",
    f"{ESCAPE}[31mred{ESCAPE}[0m{ESCAPE}]0;title\x07.png",
    "\x9b31mone byte\x85.png",
    "tab\tand\rreturn.png",
    "bytes \udcff\udc80.png",
    "right\u202eleft\u2028line.png",
    "[bold red]markup[red] :smile:.png",
    "-rf --json.png",
    " leading and trailing .png",
    "%2e%2e%2f..%00.png",
    "n" * 196 + ".png",
    "ü日本語🐦.png",
)  # names of files that somebody else chose


class FakeModel:
    """Embeds by a fixed matrix, counts the images, and fails at a batch if it is told to."""

    def __init__(self, seed=0, *, shape=SHAPE, dim=DIM, place="nowhere", fail_at=None, wrong=KeyboardInterrupt):
        self.about = About(dim, f"fake{seed}", shape, (str(place),), "", {"loss": "shadow"})
        self.matrix = np.random.default_rng(seed).normal(size=(shape.channels * shape.size**2, dim))
        self.embedded = self.batches = 0
        self.fail_at, self.wrong = fail_at, wrong

    def embed(self, squares):
        if self.batches == self.fail_at:
            raise self.wrong
        self.batches += 1
        self.embedded += len(squares)
        rows = (squares.reshape(len(squares), -1) - 127.5) @ self.matrix
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def pixels(seed, width=8, height=8):
    """Return gray noise."""
    return np.random.default_rng(seed).integers(0, 256, (height, width), np.uint8)


def write_image(path, seed, width=8, height=8):
    """Write a PNG file of noise."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels(seed, width, height)).save(path, "PNG")
    return path


def write_folder(folder, classes=("ant", "bee", "cat"), count=4):
    """Write images into a folder a class; all are different."""
    for number, name in enumerate(classes):
        for place in range(count):
            write_image(folder / name / f"{place}.png", 100 * number + place)
    return folder


def indexed(model, source, out, **more):
    """Index a folder or table; return what that did."""
    return build_index(model, list_images(source), out, **more)


def unit(rows):
    """Return rows of length 1 as an index has them, in float16."""
    rows = np.asarray(rows, np.float64)
    return (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)).astype(np.float16)


def contents_of(rows, labels=None, paths=None, classes=("x", "y", "z")):
    """Return what an index holds; paths are in order."""
    count = len(rows)
    return Contents(
        np.asarray(rows, np.float16),
        np.full(count, -1, np.int32) if labels is None else np.asarray(labels, np.int32),
        np.frombuffer(hashlib.shake_256(b"files").digest(32 * count), np.uint8).reshape(count, 32),
        [f"{number:05}.png" for number in range(count)] if paths is None else paths,
        classes,
    )


def small_index(path, rows=5, dim=4):
    """Write an index of a few hundred bytes; return its path."""
    made = contents_of(unit(np.random.default_rng(0).normal(size=(rows, dim))), np.arange(rows) % 3 - 1)
    write_index(path, About(dim, "fake0", SHAPE, ("nowhere",), "", {"loss": "shadow"}), made)
    return path


def taken_apart(path):
    """Return the header of an index, and its arrays as bytes by name."""
    stored = path.read_bytes()
    place = START.size + START.unpack(stored[: START.size])[2]
    header, arrays = json.loads(stored[START.size : place]), {}
    for name, about in header["arrays"].items():
        place += -place % 64
        arrays[name] = stored[place : place + about["bytes"]]
        place += about["bytes"]
    return header, arrays


def forged(header, arrays, version=VERSION):
    """Return an index with this header, an object or bytes, whose checksum is right."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    stored = START.pack(MAGIC, version, len(text), hashlib.sha256(text).digest()) + text
    for array in arrays.values():
        stored += bytes(-len(stored) % 64) + array
    return stored


def described(arrays):
    """Return what a header says of arrays."""
    return {name: {"bytes": len(array), "sha256": hashlib.sha256(array).hexdigest()} for name, array in arrays.items()}


def write_run(folder, seed=0):
    """Write a run on the digits whose embedder was never trained: it is made in a moment."""
    import torch

    from shadowmetric.app.models.from_settings import embedder_for
    from shadowmetric.app.training.runs.run import Run
    from shadowmetric.app.training.runs.settings import TrainSettings, resolve_settings
    from shadowmetric.app.training.runs.tensor_files import save_tensors

    settings = resolve_settings(
        TrainSettings(data="digits", dim=DIM, device="cpu", seed=seed), size=8, resize=8, channels=1
    )
    Run(folder).begin(settings)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        weights = embedder_for(settings).state_dict()
    Run(folder).write(Run(folder).best_file, lambda place: save_tensors(place, weights))
    return folder


def ran(capsys, *words, code=0):
    """Run a command; return what it said. Its exit code must be this one."""
    with pytest.raises(SystemExit) as ended:
        main([*words])
    said = capsys.readouterr()
    assert (ended.value.code or 0) == code, said.err
    assert "Traceback" not in said.err
    return said
