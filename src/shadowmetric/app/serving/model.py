"""What embeds images: a run with its best weights, or a model that was exported from one.

Both take the same squares of pixels (`runtime/images.py`) and give rows of length 1, so that an index does not care
which of the two made it; but rows of two models must not be compared, so each has a fingerprint, the SHA-256 of its
weights, and an index remembers it. An exported file states the fingerprint of its run, and what it states is only worth
something if its bytes are those that were exported: it has a digest of them inside, the folder that it was exported to
has one of the whole file, and an index has that of the file that made it.
"""

import functools
import hashlib
import importlib.util
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from shadowmetric.app.serving.places import check_run
from shadowmetric.app.training.runs.run import Run
from shadowmetric.errors import Mistake
from shadowmetric.runtime.digests import Digests
from shadowmetric.runtime.entries import About, same_rows
from shadowmetric.runtime.images import Shape

if TYPE_CHECKING:
    from shadowmetric.runtime.model import OnnxModel

ONNX = ".onnx"
EXPORTED = Path("export", "model.onnx")  # of a run, in float32
TOLD = ("data", "loss", "margin", "miner", "backbone", "size", "dim", "epochs", "seed")


@runtime_checkable
class Model(Protocol):
    """What embeds images. `embed` may be called from several threads."""

    about: About  # dim, fingerprint, shape, places and how it was trained; root is empty

    def embed(self, squares: np.ndarray) -> np.ndarray:
        """Return the embeddings, (batch, dim) float32 of length 1, of (batch, channels, size, size) uint8."""
        ...


class RunModel:
    """The embedder of a run, with the weights of its best epoch; it is loaded when the first image comes."""

    def __init__(self, folder: Path):
        self.run = Run(folder)
        self.about = about_run(self.run)
        self.lock = threading.Lock()

    @functools.cached_property
    def embedder(self) -> Any:
        """The embedder, in torch."""
        from shadowmetric.app.training.runs.trained import load_embedder

        embedder = load_embedder(self.run)
        if fingerprint(self.run.best_file) != self.about.fingerprint:
            raise Mistake(f"{self.run.folder} was trained on meanwhile, and has other weights; start again.")
        return embedder

    def embed(self, squares: np.ndarray) -> np.ndarray:
        """Return the embeddings, (batch, dim) float32 of length 1."""
        import torch

        with self.lock:
            embedder = self.embedder
        with torch.inference_mode():
            rows = embedder(torch.tensor(squares))  # a copy: the pixels of an image are read-only
            return torch.nn.functional.normalize(rows, dim=1).numpy()


def about_run(run: Run) -> About:
    """Return what is known of the model of a run."""
    settings = run.settings()
    if settings.size is None or settings.resize is None or settings.channels is None:
        raise Mistake(
            f"{run.settings_file} does not say the size of its images; train on with `{run.resume_command()}`."
        )
    try:
        shape = Shape(settings.size, settings.resize, settings.channels)
    except (TypeError, ValueError) as error:
        raise Mistake(f"{run.settings_file} makes no sense ({error}).") from None
    weights = run.check(run.best_file)
    return About(settings.dim, weights, shape, (str(run.folder.resolve()),), "", story(run), weights)


def story(run: Run) -> dict[str, str]:
    """Return how a run was trained and what it reached, in words."""
    settings = run.settings()
    facts = {name: str(getattr(settings, name)) for name in TOLD}
    scores: dict[str, Any] = run.scores() or {}
    facts["run"] = run.folder.resolve().name
    if isinstance(reached := scores.get("recall_at_1"), float):
        facts["Recall@1 on its test images"] = f"{100 * reached:.1f} %"
    return facts


def portable_name(data: str) -> str:
    """Return a dataset's name without the folders of this machine: folder:/a/b becomes folder:b."""
    kind, colon, place = data.partition(":")
    return f"{kind}:{Path(place).name}" if colon else data


def fingerprint(file: Path) -> str:
    """Return the SHA-256 of a file of weights."""
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise Mistake(f"{file} cannot be read ({error.strerror}); train the run first.") from None


def open_model(place: Path, threads: int | None = None) -> Model:
    """Return the model of a run's folder, or of an .onnx file; threads: that an exported one may use, else all cores.

    If the run was exported to float32, and nothing was trained since, the exported model takes its place: the same
    rows but for rounding, and a search then starts in three seconds instead of ten.
    """
    if place.suffix == ONNX:
        return onnx_model(place, place, threads)
    if not place.exists():
        raise Mistake(f"{place} is not there; give the folder of a run, or a model that `shadowmetric export` wrote.")
    check_run(place, ", or an .onnx file that `shadowmetric export` wrote")
    model = RunModel(place)
    exported = place / EXPORTED
    if exported.exists():
        try:
            if not (digests := Digests(exported.parent)).has_record():  # it may be of anything
                return model
            digests.check(exported)
            quicker = onnx_model(exported, place, threads)
        except Mistake:  # a damaged copy, or no onnxruntime; the run itself is there
            return model
        if same_rows(quicker.about, model.about):
            quicker.about = model.about
            return quicker
    return model


def onnx_model(file: Path, place: Path, threads: int | None = None) -> "OnnxModel":
    """Return an exported model that an index will look for at `place`."""
    from shadowmetric.runtime.model import OnnxModel

    if importlib.util.find_spec("onnxruntime") is None:
        raise Mistake("onnxruntime is not installed; run `pip install 'shadowmetric[export]'`.")
    model = OnnxModel(file, threads)
    model.about = replace(model.about, model=(str(place.resolve()),))
    return model


def model_of(about: About, index: Path | None = None, instead: Path | None = None, threads: int | None = None) -> Model:
    """Return the model that made an index: from `instead` if it is given, else from where the index says it was."""
    places = [instead] if instead is not None else [(index or Path()).parent / place for place in about.model]
    error = Mistake("the index does not say where the model is that made it; name its run by --model.")
    for place in places:
        try:
            return with_weights(place, about, threads)
        except Mistake as refusal:  # another place may have it
            error = refusal
    raise error


def with_weights(place: Path, about: About, threads: int | None) -> Model:
    """Return the model at a place if it is the one that made an index."""
    if not place.exists():
        raise Mistake(f"the model that made the index is not at {place}; name its run by --model.")
    model = open_model(place, threads)
    if not same_rows(model.about, about):
        raise Mistake(
            f"{place} has other weights than those that made the index; index the images again with it, "
            "or name the model that made it by --model."
        )
    return model


def places_of(model: About, index: Path) -> tuple[str, ...]:
    """Return where the model is, seen from the index, and absolutely."""
    return tuple(dict.fromkeys(place for absolute in model.model for place in (relative(absolute, index), absolute)))


def relative(place: str, index: Path) -> str:
    """Return a place as seen from the folder of an index."""
    try:
        return os.path.relpath(place, index.resolve().parent)
    except ValueError:  # another drive
        return place
