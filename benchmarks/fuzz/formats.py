"""Every format that a command reads: which files of it are damaged, and how they are read.

`read` goes the way that commands go, up to what they would work with, and returns an answer that can be compared.
`plain` is for files that carry no digest: what a plain reader takes from the damaged file. A format that is `renewed`
has its digest written anew after the damage, as if another program had written the file: the reader behind the digest
must then refuse it, or say what it says.
"""

import contextlib
import io
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.fuzz import plain_readers as plain
from benchmarks.fuzz.originals import FEW, IMAGES
from shadowmetric.app import cli
from shadowmetric.app.cli.config import config_reader
from shadowmetric.app.cli.evaluation.input import what_to_evaluate
from shadowmetric.app.compare.compare import values_of
from shadowmetric.app.compare.plan import read_plan
from shadowmetric.app.data.catalogue import open_dataset
from shadowmetric.app.data.images import ArrayImages, FileImages
from shadowmetric.app.data.manage.archive import unpack
from shadowmetric.app.models.weights import read_weights
from shadowmetric.app.report.showcase.showcase import load_showcase
from shadowmetric.app.serving.model import open_model
from shadowmetric.app.serving.server.token import read_token
from shadowmetric.app.training.checkpoint import check_saved
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings, as_plain, check_settings
from shadowmetric.app.training.runs.tensor_files import load_state
from shadowmetric.app.training.runs.trained import load_embedder
from shadowmetric.runtime import runner
from shadowmetric.runtime.images import open_image
from shadowmetric.runtime.index_file import read_index

COMPUTED_ANEW = "computed anew"  # an answer: what a damaged file kept is not used

Read = Callable[[Path], Any]


@dataclass(frozen=True)
class Format:
    """A format, where its files lie, and how they are read."""

    name: str
    files: tuple[str, ...]  # one of them is damaged in each case
    read: Read
    plain: Read | None = None
    renewed: bool = False  # with the digest of the damaged file
    exported: bool = False  # it takes onnxruntime to make


def said(*words: str | Path) -> str:
    """Return what a command says; what ends it is raised."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            cli.run([str(word) for word in words], cli.command_line)
        except SystemExit as ended:  # cyclopts ends so, too
            if ended.code:
                raise
    return out.getvalue()


def settings(folder: Path) -> Any:
    """Return the settings of the run."""
    return as_plain(Run(folder / "run").settings())


def settings_plainly(folder: Path) -> Any:
    """Return the settings as YAML has them, over the defaults."""
    return as_plain(TrainSettings()) | plain.read_yaml(folder / "run" / "settings.yaml")


def all_of_run(folder: Path) -> Any:
    """Return all that commands read of a finished run."""
    run = Run(folder / "run")
    weights = run.check(run.best_file)
    return (
        as_plain(run.settings()),
        run.journal(),
        run.replay(),
        run.scores(),
        weights,
        bits_of(values_of(run, "labels")),
    )


def bits_of(tensor: torch.Tensor) -> bytes:
    """Return a tensor as bytes."""
    return tensor.contiguous().numpy().tobytes()


def embeddings(folder: Path) -> bytes:
    """Return what the run's embedder makes of some pixels."""
    with torch.inference_mode():
        return bits_of(load_embedder(Run(folder / "run"))(torch.arange(128, dtype=torch.uint8).reshape(2, 1, 8, 8)))


def stopped(folder: Path) -> Any:
    """Return all that a resume reads before it works."""
    run = Run(folder / "stopped")
    read = as_plain(run.settings()), run.scores()
    check_saved(run)
    return *read, as_plain_state(load_state(run.state_file))


def as_plain_state(state: Any) -> str:
    """Return a state as text, tensors with their bits."""
    if isinstance(state, torch.Tensor):
        return f"{state.dtype} {tuple(state.shape)} {bits_of(state).hex()}"
    if isinstance(state, dict):
        return json.dumps({str(name): as_plain_state(value) for name, value in state.items()}, sort_keys=True)
    return json.dumps([as_plain_state(one) for one in state]) if isinstance(state, list | tuple) else repr(state)


def showcase(folder: Path) -> Any:
    """Return what a page keeps of a run; one that is damaged is computed again."""
    return load_showcase(Run(folder / "run"), FEW) or COMPUTED_ANEW


def config(folder: Path) -> Any:
    """Return the options of a file; what the command makes of them is read, too, and refused as it would be."""
    reader = config_reader(folder / "config.yaml")
    _, bound, *_ = cli.command_line(folder / "config.yaml").parse_args(
        ["train"], exit_on_error=False, print_error=False
    )
    made = bound.arguments.get("settings", TrainSettings())
    check_settings(made)
    used = as_plain(made)
    for name, value in reader.options.items():
        if (name := name.replace("-", "_")) in used and not alike(used[name], value):
            raise AssertionError(f"{name} is {value!r} in the file and {used[name]!r} in the settings")
    return reader.options


def alike(used: Any, written: Any) -> bool:
    """Return whether a setting is what a file says: numbers may be written as text, and nothing as a word."""
    if isinstance(used, int | float) and not isinstance(used, bool):
        return float(used) == float(written)
    return str(used).lower() == str(written).lower() or (used is None and written in (None, "none", "null"))


def table(folder: Path) -> Any:
    """Return path, class and split of each line of a table."""
    dataset = open_dataset(f"csv:{folder / 'table.csv'}")
    lines = []
    for part, split in dataset.parts().items():
        assert isinstance(split.images, FileImages)
        names = (dataset.classes[label] for label in split.labels)
        lines += [(path, name, part) for path, name in zip(split.images.paths, names, strict=True)]
    return sorted(lines)


def table_plainly(folder: Path) -> Any:
    """Return the lines of a table with the names that parts have here; without a split the parts are not compared."""
    lines, held_out = plain.read_table(folder / "table.csv"), ("test", "validation", "val")
    return sorted((path, label, "test" if split.lower() in held_out else "train") for path, label, split in lines)


def images_npz(folder: Path) -> Any:
    """Return the images of both parts with their classes, by their pixels."""
    dataset = open_dataset(f"npz:{folder / 'images.npz'}")
    found = []
    for split in dataset.parts().values():
        assert isinstance(split.images, ArrayImages)
        pixels = [split.images.read(number).numpy().tobytes() for number in range(len(split))]
        found += list(zip(pixels, (dataset.classes[label] for label in split.labels), strict=True))
    return sorted(found)


def images_npz_plainly(folder: Path) -> Any:
    """Return the same by numpy."""
    with np.load(folder / "images.npz") as arrays:
        return sorted(
            (one.tobytes(), str(label)) for one, label in zip(arrays["images"], arrays["labels"], strict=True)
        )


def evaluated(folder: Path, *files: str) -> Any:
    """Return rows and labels of files, after the command has evaluated them."""
    paths = [folder / name for name in files]
    said("evaluate", *paths, "--json")
    found = what_to_evaluate(*paths)
    names = np.array([str(found.name(int(label))) for label in found.query.labels])
    return [plain.bits(np.array(found.query.rows)), plain.bits(names)]


def evaluated_plainly(folder: Path, *files: str) -> Any:
    """Return the same by numpy."""
    if len(files) == 1:
        rows, labels = plain.read_arrays(folder / files[0], "embeddings", "labels")
        return [rows, labels]
    rows = plain.read_arrays(folder / files[0], "")[0]
    return [rows, plain.bits(np.load(folder / files[1]).astype(np.int64).astype(str))]


def unpacked(folder: Path, name: str) -> dict[str, bytes]:
    """Return the files that come out of an archive."""
    with tempfile.TemporaryDirectory() as place:
        into = Path(place) / "out"
        unpack(folder / name, into)
        return {str(path.relative_to(into)): path.read_bytes() for path in into.rglob("*") if path.is_file()}


def pixels_of(path: Path) -> Any:
    """Return the pixels of an image as commands see them."""
    image = open_image(path)
    return image.mode, image.size, image.tobytes()


def cub_lists(folder: Path) -> Any:
    """Return path and class of each image of the lists, training part first."""
    dataset = open_dataset("cub200", folder / "data", allow_partial=True)
    found = []
    for split in dataset.parts().values():
        assert isinstance(split.images, FileImages)
        names = (dataset.classes[label] for label in split.labels)
        found += [(path.removeprefix("images/"), name) for path, name in zip(split.images.paths, names, strict=True)]
    return sorted(found)


def mnist(folder: Path) -> list[bytes]:
    """Return pixels and labels of the training part."""
    split = open_dataset("mnist", folder / "data", allow_partial=True).train
    pixels = b"".join(split.images.read(number).numpy().tobytes() for number in range(len(split)))
    return [pixels, split.labels.astype(np.uint8).tobytes()]


def index(folder: Path) -> Any:
    """Return all that an index holds."""
    about, contents = read_index(folder / "photos.shadowmx")
    rows = [contents.entry(number) for number in range(len(contents))]
    return about, rows, contents.rows.tobytes(), contents.hashes.tobytes(), contents.classes


def exported_model(folder: Path) -> bytes:
    """Return what an exported model makes of some pixels."""
    model = open_model(folder / "exported" / "model.onnx")
    return model.embed(np.arange(64, dtype=np.uint8).reshape(1, 1, 8, 8)).tobytes()


def bundle(folder: Path) -> str:
    """Return what a bundle's program answers: a search, a comparison."""
    photos, out = folder / "photos" / "ant", io.StringIO()
    for words in (["search", photos / "0.png"], ["verify", photos / "0.png", photos / "1.png"]):
        errors = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code = runner.main(["--bundle", str(folder / "device"), *map(str, words), "--json"])
        if code:
            raise SystemExit(errors.getvalue())
    return out.getvalue()


def search(folder: Path) -> str:
    """Return what the command answers."""
    return said("search", folder / "photos.shadowmx", folder / "photos" / "ant" / "0.png", "--json")


def verify(folder: Path) -> str:
    """Return what the command answers."""
    photos = folder / "photos" / "ant"
    return said("verify", folder / "run", photos / "0.png", photos / "1.png", "--json")


def resume(folder: Path) -> Any:
    """Let the command go on with the stopped run; return the bits it ends with."""
    copy = folder / "again"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder / "stopped", copy)
    said("train", "--resume", copy, "--json")
    run = Run(copy)
    return run.best_file.read_bytes(), run.queries_file.read_bytes()


def of_run(name: str, read: Read, plainly: Read) -> tuple[Format, Format]:
    """Return a file of a run as it is checked, and as it is parsed once its digest is right."""
    return (
        Format(f"run: {name}", (f"run/{name}",), all_of_run),
        Format(f"run: {name}, digest renewed", (f"run/{name}",), read, plainly, renewed=True),
    )


RUN_FILES = tuple(
    f"run/{name}"
    for name in ("settings.yaml", "journal.jsonl", "replay.txt", "scores.json", "best.safetensors", "digests.json")
)
STOPPED = ("stopped/last/state.pt", "stopped/settings.yaml", "stopped/digests.json")
FORMATS: tuple[Format, ...] = (
    *of_run("settings.yaml", settings, settings_plainly),
    *of_run("journal.jsonl", lambda f: Run(f / "run").journal(), lambda f: plain.read_lines(f / "run/journal.jsonl")),
    *of_run(
        "scores.json", lambda f: Run(f / "run").scores(), lambda f: json.loads((f / "run/scores.json").read_bytes())
    ),
    Format("run: replay.txt", ("run/replay.txt",), all_of_run),
    Format("run: queries.safetensors", ("run/queries.safetensors",), all_of_run),
    Format("run: digests.json", ("run/digests.json",), all_of_run),
    Format("run: best.safetensors", ("run/best.safetensors",), embeddings),
    Format("run: showcase.json", ("run/showcase.json",), showcase),
    Format("stopped run: state, settings, digests", STOPPED, stopped),
    Format("comparison: compare.yaml", ("comparison/compare.yaml",), lambda f: repr(read_plan(f / "comparison"))),
    Format("own YAML (--config)", ("config.yaml",), config, lambda f: plain.read_yaml(f / "config.yaml")),
    Format("own table (csv:)", ("table.csv",), table, table_plainly),
    Format("own arrays (npz:)", ("images.npz",), images_npz, images_npz_plainly),
    Format(
        "embeddings: .npz",
        ("rows.npz",),
        lambda f: evaluated(f, "rows.npz"),
        lambda f: evaluated_plainly(f, "rows.npz"),
    ),
    Format(
        "embeddings: .npy",
        ("rows.npy", "labels.npy"),
        lambda f: evaluated(f, "rows.npy", "labels.npy"),
        lambda f: evaluated_plainly(f, "rows.npy", "labels.npy"),
    ),
    *(
        Format(
            f"image: {ending}",
            (f"image.{ending}",),
            lambda f, e=ending: pixels_of(f / f"image.{e}"),
            lambda f, e=ending: plain.read_pixels(f / f"image.{e}"),
        )
        for ending in IMAGES
    ),
    Format(
        "archive: .zip",
        ("photos.zip",),
        lambda f: unpacked(f, "photos.zip"),
        lambda f: plain.read_zip(f / "photos.zip"),
    ),
    *(
        Format(
            f"archive: .{ending}",
            (f"photos.{ending}",),
            lambda f, e=ending: unpacked(f, f"photos.{e}"),
            lambda f, e=ending: plain.read_tar(f / f"photos.{e}"),
        )
        for ending in ("tar", "tgz", "tar.xz")
    ),
    Format(
        "dataset: lists of CUB-200",
        tuple(f"data/CUB_200_2011/{name}.txt" for name in ("classes", "images", "image_class_labels")),
        cub_lists,
        lambda f: plain.read_cub_lists(f / "data" / "CUB_200_2011"),
    ),
    Format(
        "dataset: arrays of MNIST",
        ("data/MNIST/raw/train-images-idx3-ubyte", "data/MNIST/raw/train-labels-idx1-ubyte"),
        mnist,
        lambda f: plain.read_idx(*sorted((f / "data" / "MNIST" / "raw").glob("train-*"))),
    ),
    Format(
        "weights: .safetensors",
        ("weights.safetensors",),
        lambda f: plain.tensor_bits(read_weights(f / "weights.safetensors")),
        lambda f: plain.read_safetensors(f / "weights.safetensors"),
    ),
    Format(
        "weights: .pt",
        ("weights.pt",),
        lambda f: plain.tensor_bits(read_weights(f / "weights.pt")),
        lambda f: plain.read_torch(f / "weights.pt"),
    ),
    Format(
        "token",
        ("token",),
        lambda f: read_token(f / "token", False, {}),
        lambda f: (f / "token").read_text().rstrip("\r\n"),
    ),
    Format("index: .shadowmx", ("photos.shadowmx",), index),
    Format("exported model: .onnx", ("exported/model.onnx",), exported_model, exported=True),
    Format(
        "bundle: model, index, threshold, digests",
        ("device/model.onnx", "device/index.shadowmx", "device/calibration.json", "device/digests.json"),
        bundle,
        exported=True,
    ),
    Format("command: evaluate RUN", RUN_FILES, lambda f: said("evaluate", f / "run", "--json")),
    Format("command: search", ("photos.shadowmx", *RUN_FILES), search),
    Format("command: verify", ("run/calibration.json", *RUN_FILES), verify),
    Format("command: train --resume", (*STOPPED, "stopped/journal.jsonl", "stopped/replay.txt"), resume),
)
