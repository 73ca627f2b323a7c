"""A run as files that need no torch: model.onnx in float32, model-int8.onnx, and parity.json that says what was lost.

Every file is compared with torch before it takes its place. The float file must give torch's rows. The 8-bit file is
refused if its Recall@1 is more than `limit` below torch's, unless the loss is accepted; then none is left from before
either, and parity.json says so. The ranges of 8-bit numbers come from training images, never from test images.

parity.json holds the SHA-256 of each file: whoever finds another beside it has met a kill between the two. So does
digests.json, without which an exported model does not stand for its run.

Memory: the model a few times, and the rows of the test images.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shadowmetric.app.data.dataset import Dataset
from shadowmetric.app.serving.exporting.parity import BATCH, FLOAT, INT8, TORCH, Measured, measure_parity
from shadowmetric.app.serving.exporting.squares import dataset_of, some_of, some_of_each, squares_of
from shadowmetric.app.serving.model import about_run
from shadowmetric.app.serving.places import check_run, check_writable
from shadowmetric.app.training.runs.origin import origin
from shadowmetric.app.training.runs.run import Run
from shadowmetric.errors import Mistake, Stopped
from shadowmetric.progress import Report
from shadowmetric.runtime.digests import Digests
from shadowmetric.runtime.files import write_json
from shadowmetric.runtime.unfinished import temporary_folder

NAMES = {FLOAT: "model.onnx", INT8: "model-int8.onnx"}
LIMIT = 0.01
IMAGES, CALIBRATION = 2000, 256
SEED = 0
FARTHEST = 1e-5  # 1 - cos of the float file's rows to torch's


@dataclass(frozen=True)
class Exported:
    """What was written, what was measured, and why the 8-bit file was refused, if it was."""

    folder: Path
    files: dict[str, Path]  # by model: fp32, int8
    measured: list[Measured]
    images: int
    dataset: str
    limit: float
    refusal: str | None
    bundle: Any = None  # what a bundle of it holds (`Bundled`), if one was asked for

    def of(self, model: str) -> Measured:
        """Return what was measured of a model."""
        return next(one for one in self.measured if one.model == model)

    def plain(self) -> dict[str, Any]:
        """Return it as parity.json has it."""
        return {
            "dataset": self.dataset,
            "images": self.images,
            "seed": SEED,
            "limit": self.limit,
            "files": {name: file.name for name, file in self.files.items()},
            "refusal": self.refusal,
            "models": [one.plain() for one in self.measured],
            "origin": origin(),
        }


def export(
    run: Run,
    out: Path | None = None,
    *,
    int8: bool = True,
    limit: float = LIMIT,
    accept: bool = False,
    images: int = IMAGES,
    calibration: int = CALIBRATION,
    data_root: Path | None = None,
    tell: Report | None = None,
) -> Exported:
    """Write the files of a run into `out`, or into export/ in its folder; see above for what is refused.

    images: test images at most that models are compared on. calibration: training images for the ranges of 8-bit
    numbers. data_root: where the run's dataset is, if it has moved.
    """
    check(images, calibration, limit)
    check_run(run.folder)
    run.settings()  # a folder without them holds no run at all
    folder, tell = out or run.folder / "export", tell or (lambda *_: None)
    if folder.exists() and not folder.is_dir():
        raise Mistake(f"{folder} is a file; name a folder by --out.")
    check_writable(folder, "name another by --out")
    from shadowmetric.app.training.runs.trained import load_embedder

    embedder, about, dataset = load_embedder(run), about_run(run), dataset_of(run, data_root)
    from shadowmetric.app.serving.exporting.onnx_file import write_onnx

    with disk_errors(folder), temporary_folder() as made_in:
        exports = {FLOAT: made_in / NAMES[FLOAT]}
        tell("tracing the model", 0.0)
        write_onnx(embedder, about, exports[FLOAT])
        if int8:
            from shadowmetric.app.serving.exporting.int8 import write_int8

            exports[INT8] = made_in / NAMES[INT8]
            write_int8(exports[FLOAT], exports[INT8], training_squares(run, dataset, calibration, tell))
        split = some_of_each(dataset.test, images, SEED)
        skip = run.settings().broken == "skip"
        measured, count = measure_parity(run.folder, run.best_file, exports, split, skip_broken=skip, tell=tell)
        return place_exports(exports, measured, folder, count, dataset.name, limit, accept)


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Say where there is no room, in the folder or where its files are prepared; their own names are nobody's."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        reason, there = os.strerror(error.errno), Path(str(error.filename or folder))
        if folder in there.parents:
            raise Stopped(f"{there} cannot be written ({reason}); make room there, or name another --out.") from None
        prepared = tempfile.gettempdir()
        raise Stopped(
            f"{folder}: its files cannot be prepared in {prepared} ({reason}); make room there, or name another folder "
            "by the variable TMPDIR."
        ) from None


def check(images: int, calibration: int, limit: float) -> None:
    """Refuse numbers that make no sense."""
    for name, value, least in (("--images", images, 2), ("calibration", calibration, 1)):
        if value < least:
            raise Mistake(f"{name} is {value}; give {least} or more.")
    if not limit <= 1:
        raise Mistake(f"--limit is {limit}; it is a share, such as 0.01 for one point.")


def training_squares(run: Run, dataset: Dataset, count: int, tell: Report) -> Iterator[np.ndarray]:
    """Yield images of the training split, which the ranges of 8-bit numbers are taken from."""
    images = some_of(dataset.train, count, SEED).images
    skip, done = run.settings().broken == "skip", 0
    for _, squares in squares_of(images, about_run(run).shape, BATCH, skip_broken=skip):
        done += len(squares)
        tell("taking ranges", done / len(images))
        yield squares


def place_exports(
    exports: dict[str, Path],
    measured: list[Measured],
    folder: Path,
    images: int,
    dataset: str,
    limit: float,
    accept: bool,
) -> Exported:
    """Put what may stay into the folder, and remove an 8-bit file that may not."""
    figures = {one.model: one for one in measured}
    if not (apart := figures[FLOAT].largest_cosine_error) <= FARTHEST:  # nor NaN
        raise Stopped(f"the exported model's rows are up to {apart:.2g} (1 - cos) from torch's; nothing was written.")
    refusal = None if INT8 not in exports or accept else refusal_of(figures, limit)
    kept = {name: file for name, file in exports.items() if name != INT8 or refusal is None}
    for name, file in kept.items():
        Digests(folder).write(folder / NAMES[name], lambda place, file=file: shutil.copyfile(file, place))
    if INT8 in exports and INT8 not in kept:
        (folder / NAMES[INT8]).unlink(missing_ok=True)
    files = {name: folder / NAMES[name] for name in kept}
    exported = Exported(folder, files, measured, images, dataset, limit, refusal)
    write_json(folder / "parity.json", exported.plain())
    return exported


def refusal_of(figures: dict[str, Measured], limit: float) -> str | None:
    """Return why the 8-bit model is refused, in one sentence; None if it is good enough."""
    before, after = figures[TORCH].recall_at_1, figures[INT8].recall_at_1
    if before - after <= limit:
        return None
    return (
        f"int8 has Recall@1 {100 * after:.2f} % where torch has {100 * before:.2f} %, which is "
        f"{100 * (before - after):.2f} points less and the limit is {100 * limit:g}, so {NAMES[INT8]} was not written; "
        f"accept it with --accept-loss, or give a larger --limit."
    )
