"""A small index of colored images, and a model that is a function of pixels."""

import contextlib
import io
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from shadowmetric.app.serving.galleries.file_gallery import FileGallery
from shadowmetric.app.serving.server.app import make_app
from shadowmetric.app.serving.server.running import Server, address_of, listen
from shadowmetric.app.serving.server.settings import ServeSettings
from shadowmetric.runtime.entries import About
from shadowmetric.runtime.images import Shape, open_image
from shadowmetric.runtime.index_file import Contents, write_index

COLORS = {"red": (200, 40, 30), "green": (40, 180, 60), "blue": (40, 60, 210)}
EACH = 6  # images of a color
DIM = 12
SHAPE = Shape(8, 8, 3)
TRAINED = {"loss": "shadow", "data": "folder:/home/somebody/secret/birds", "Recall@1 on its test images": "71.0 %"}


class Pixels:
    """A model whose embedding is the mean color of quarters of the image."""

    def __init__(self, fingerprint="f" * 64):
        self.about = About(DIM, fingerprint, SHAPE, ("/srv/models/run",), "", TRAINED)

    def embed(self, squares):
        quarters = squares.reshape(len(squares), 3, 2, 4, 2, 4).mean((3, 5)).reshape(len(squares), DIM)
        rows = quarters.astype(np.float32) - 100
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def image_of(color, seed=0, size=(60, 40)):
    """Return an image of a color with noise."""
    rng = np.random.default_rng(seed)
    pixels = np.array(color) + rng.normal(0, 18, (size[1], size[0], 3)) + rng.uniform(-25, 25, 3)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def as_bytes(image, kind="PNG", **more):
    """Return an encoded image."""
    out = io.BytesIO()
    image.save(out, kind, **more)
    return out.getvalue()


def write_images(root):
    """Write images, a folder for each color; return their paths."""
    for name, color in COLORS.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for number in range(EACH):
            image_of(color, seed=number).save(root / name / f"{number}.png")
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*.png"))


def write_small_index(out, root, paths, model=None, labels=None):
    """Write an index of paths below the root; those that cannot be read get the row of a gray image."""
    model = model or Pixels()
    squares = np.stack([square_at(root, path) for path in paths]) if paths else np.empty((0, 3, 8, 8), np.uint8)
    labels = [path.split("/")[0] for path in paths] if labels is None else labels
    classes = tuple(sorted({label for label in labels if label is not None}))
    numbers = [-1 if label is None else classes.index(label) for label in labels]
    contents = Contents(
        model.embed(squares).astype(np.float16) if paths else np.empty((0, DIM), np.float16),
        np.array(numbers, np.int32),
        np.zeros((len(paths), 32), np.uint8),
        paths,
        classes,
    )
    write_index(out, replace(model.about, root=str(root)), contents)
    return out


def square_at(root, path):
    try:
        return SHAPE.square(open_image(root / path))
    except ValueError:
        return np.full((3, 8, 8), 120, np.uint8)


class Asked:
    """An application, and somebody who asks it."""

    def __init__(self, index, settings=None, model=None, file=None, own=False, **more):
        self.app = make_app(FileGallery(index, own=own), model or Pixels(), settings or ServeSettings(), file)
        self.service = self.app.state.service
        self.client = TestClient(self.app, base_url="http://localhost:8000", **more)

    def search(self, body, **parameters):
        return self.client.post("/api/search", content=body, params=parameters)


@contextlib.contextmanager
def listening(app):
    """Yield the address of a server that runs in a thread."""
    opened = listen(replace(app.state.service.settings, port=0))
    begun = threading.Event()
    server = Server(app, begun.set)
    server.config.timeout_graceful_shutdown = 2
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    begun.wait()
    try:
        yield address_of(opened)
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def made():
    """What tests make their own images, indexes and applications with."""
    return SimpleNamespace(
        Asked=Asked,
        listening=listening,
        Pixels=Pixels,
        COLORS=COLORS,
        EACH=EACH,
        image_of=image_of,
        as_bytes=as_bytes,
        write_images=write_images,
        write_small_index=write_small_index,
    )


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """A folder of images, which no test changes."""
    root = tmp_path_factory.mktemp("indexed") / "images"
    return root, write_images(root)


@pytest.fixture(scope="session")
def small_index(images, tmp_path_factory):
    """An index of them."""
    root, paths = images
    return write_small_index(tmp_path_factory.mktemp("index") / "small.shadowmx", root, paths)


@pytest.fixture
def asked(small_index):
    """The application of the small index."""
    found = Asked(small_index)
    with found.client:
        yield found


@pytest.fixture
def red():
    """The bytes of a red image that is not in the index."""
    return as_bytes(image_of(COLORS["red"], seed=99))
