"""From where on an image shows nothing that is in the catalog: measured on classes that are left out of it.

Each test image of a run is searched for twice among the others (`evaluation/open_set.py`): in all of them, as an image
whose class is there, and in those of other classes, as one whose class is not. Every other class chooses thresholds,
the rest say how often they are wrong. Training saw none of the images.

The table (`runtime/catalog.py`) is kept in the run's folder as catalog.json, if that can be written to, and goes into
every index that the run makes. Another model of the run, an 8-bit one for instance, has a table of its own.

Memory: the embeddings of the test images, and two numbers for each.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shadowmetric.app.serving.model import ONNX, Model
from shadowmetric.app.serving.verification.calibration import EmbeddedTest, embed_test_images
from shadowmetric.app.training.runs.run import Run
from shadowmetric.errors import BrokenImage, Mistake
from shadowmetric.evaluation.open_set import NearestCosines, nearest_cosines
from shadowmetric.progress import Report
from shadowmetric.runtime.catalog import CatalogThreshold, catalog_threshold_from
from shadowmetric.runtime.files import write_json
from shadowmetric.runtime.threshold import DIGEST, digest_of

FILE = "catalog.json"
KNOTS = 64  # rows of the table
DIGITS = 10**7


def catalog_threshold(
    run: Run,
    model: Model,
    *,
    data_root: Path | None = None,
    tell: Report | None = None,
    notes: list[str] | None = None,
) -> CatalogThreshold | None:
    """Return the threshold of a model of a run: the one in the run's folder if it is of this model, else measured.

    notes: gets a sentence why there is none, or why it could not be kept; without a list a refusal is raised.
    """
    file, notes = run.folder / FILE, [] if notes is None else notes
    if (kept := kept_threshold(file, model.about.fingerprint)) is not None:
        return kept
    test = embed_test_images(run, model, data_root, tell)
    both = nearest_cosines(test.rows, test.labels)
    if (why := why_not(test.labels, both)) is not None:
        notes.append(f"No image will be said not to be in the catalog: the {test.words} have {why}.")
        return None
    threshold = threshold_of(test, both)
    if not model.about.fingerprint.count("-"):  # that of the run itself
        record: dict[str, Any] = {"fingerprint": model.about.fingerprint, "threshold": asdict(threshold)}
        record = json.loads(json.dumps(record))
        try:
            write_json(file, record | {DIGEST: digest_of(record)})
        except OSError as error:  # a folder that may be read only
            notes.append(f"{file} cannot be written ({error.strerror}), so the next call measures again.")
    return threshold


def add_threshold(
    place: Path, model: Model, notes: list[str], *, data_root: Path | None = None, tell: Report | None = None
) -> None:
    """Have a model of a run state the threshold in what it makes; a note says why it cannot."""
    if place.suffix == ONNX:
        notes.append("A model file has no test images, so no image will be said not to be in the catalog.")
        return
    try:
        threshold = catalog_threshold(Run(place), model, data_root=data_root, tell=tell, notes=notes)
    except (BrokenImage, Mistake) as error:
        notes.append(f"No image will be said not to be in the catalog: {error}")
        return
    model.about = replace(model.about, catalog=threshold)


def kept_threshold(file: Path, fingerprint: str) -> CatalogThreshold | None:
    """Return the threshold in a file if it is of this model; a file that is not as it was written is refused."""
    if not file.exists():
        return None
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        if digest_of({name: record[name] for name in record if name != DIGEST}) != record[DIGEST]:
            raise ValueError("it is not as it was written")
        return catalog_threshold_from(record["threshold"]) if record["fingerprint"] == fingerprint else None
    except (AttributeError, KeyError, OSError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise Mistake(f"{file} cannot be used ({error}); remove it, and it is measured again.") from None


def why_not(labels: Tensor, both: NearestCosines) -> str | None:
    """Say what is missing for a threshold."""
    chooses, _, known = parts_of(labels, both)
    if bool(chooses.all()):
        return "one class, and every other one is left out once"
    return None if bool((known & ~chooses).any()) else "too few classes of two images or more"


def parts_of(labels: Tensor, both: NearestCosines) -> tuple[Tensor, Tensor, Tensor]:
    """Return which images choose, which see an image of another class, and which one of their own."""
    number = labels.unique(return_inverse=True)[1]
    return number % 2 == 0, both.other > float("-inf"), both.same > float("-inf")


def threshold_of(test: EmbeddedTest, both: NearestCosines) -> CatalogThreshold:
    """Return the table of the largest cosines of some images."""
    chooses, unknown, known = parts_of(test.labels, both)
    best = torch.maximum(both.same, both.other)
    absent, checked = both.other[unknown & chooses], both.other[unknown & ~chooses]
    present = known & ~chooses
    nearest, own = best[present], both.same[present] >= both.other[present]
    choosing = best[known & chooses]
    falling = absent.sort(descending=True).values.numpy()
    places = np.unique(np.geomspace(1, len(falling), KNOTS).round().astype(int)) - 1
    thresholds = np.unique(np.floor(falling[places] * DIGITS) / DIGITS)[::-1]

    def share(values: Tensor, threshold: float) -> float:
        return float((values >= threshold).double().mean())

    passed = [share(absent, one) for one in thresholds]
    rejected = [1 - share(choosing, one) for one in thresholds] if len(choosing) else [0.0] * len(thresholds)
    balanced = min(range(len(passed)), key=lambda row: abs(passed[row] - rejected[row]))
    return CatalogThreshold(
        test.words,
        tuple(thresholds.tolist()),
        tuple(passed),
        tuple(share(checked, one) for one in thresholds),
        tuple(1 - share(nearest, one) for one in thresholds),
        tuple(float(((nearest >= one) & own).double().mean()) for one in thresholds),
        balanced,
    )
