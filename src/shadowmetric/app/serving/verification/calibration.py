"""What cosine means "the same": measured on the test images of a run, which training never saw.

Every pair of test images is counted by its cosine (`evaluation/verification.py`), those of one class and those of two
apart. From the two histograms a table of some hundred cosines is made, `runtime/threshold.py`: what each accepts, and
how likely a pair near it is of one class. That share is made to rise with the cosine (isotonic regression), and it
supposes that both kinds of pairs are equally frequent: who compares strangers mostly must expect less.

The table is kept in the run's folder as calibration.json, if that can be written to; another model of the run has one
of its own.

Memory: the embeddings, and the histograms (see there).
"""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from shadowmetric.app.serving.exporting.squares import dataset_of, squares_of
from shadowmetric.app.serving.model import Model, portable_name
from shadowmetric.app.training.runs.run import Run
from shadowmetric.errors import Mistake
from shadowmetric.evaluation.verification import BINS, lower_edge, pair_histograms
from shadowmetric.progress import Report
from shadowmetric.runtime.files import write_json
from shadowmetric.runtime.threshold import Calibration, calibration_from

KNOTS = 400  # rates of false accepts in the table, and half as many of true accepts
BATCH = 64


def calibrate(
    run: Run,
    model: Model,
    *,
    data_root: Path | None = None,
    tell: Report | None = None,
    notes: list[str] | None = None,
) -> Calibration:
    """Return the calibration of a model of a run: the one in the run's folder if it is of this model, else measured.

    notes: gets a sentence if what was measured could not be kept.
    """
    file = run.folder / "calibration.json"
    if file.exists():
        try:
            kept = calibration_from(json.loads(file.read_text(encoding="utf-8")), str(file))
        except (OSError, RecursionError, ValueError) as error:
            raise error if isinstance(error, Mistake) else Mistake(f"{file} cannot be read ({error}).") from None
        if kept.fingerprint == model.about.fingerprint:
            return kept
    calibration = measure(run, model, data_root, tell)
    if not model.about.fingerprint.count("-"):  # that of the run itself
        try:
            write_json(file, calibration.plain())
        except OSError as error:  # a folder that may be read only
            if notes is not None:
                notes.append(f"{file} cannot be written ({error.strerror}), so the next call measures again.")
    return calibration


def measure(run: Run, model: Model, data_root: Path | None = None, tell: Report | None = None) -> Calibration:
    """Embed the test images of a run and count their pairs."""
    test = embed_test_images(run, model, data_root, tell)
    genuine, impostor = pair_histograms(test.rows, test.labels)
    if not int(genuine.sum()) or not int(impostor.sum()):
        raise Mistake(
            f"{run.folder}: the {len(test.labels)} test images of {test.name} have no pairs of one class, or none of "
            "two; a threshold needs both."
        )
    return table_of(genuine, impostor, model.about.fingerprint, test.words)


class EmbeddedTest(NamedTuple):
    """The test images of a run, as serving embeds them."""

    rows: Tensor  # (images, dim) float32
    labels: Tensor
    name: str  # of the dataset

    @property
    def words(self) -> str:
        """Return which images these are."""
        classes = len(self.labels.unique())
        return f"{len(self.labels):,} test images of {classes:,} classes of {portable_name(self.name)}"


def embed_test_images(
    run: Run, model: Model, data_root: Path | None = None, tell: Report | None = None
) -> EmbeddedTest:
    """Return the embeddings of the test images of a run's dataset, by any model of it."""
    dataset, skip = dataset_of(run, data_root), run.settings().broken == "skip"
    rows, numbers = [np.empty((0, model.about.dim), np.float32)], []
    for some, squares in squares_of(dataset.test.images, model.about.shape, BATCH, skip_broken=skip):
        rows.append(model.embed(squares))
        numbers += some
        if tell is not None:
            tell("embedding the test images", some[-1] / len(dataset.test))
    labels = torch.from_numpy(dataset.test.labels[numbers])
    return EmbeddedTest(torch.from_numpy(np.concatenate(rows)), labels, dataset.name)


def table_of(genuine: Tensor, impostor: Tensor, fingerprint: str, images: str) -> Calibration:
    """Return the table of two histograms."""
    same, other = (counts.flip(0).cumsum(0).flip(0).numpy() for counts in (genuine, impostor))  # at or above each bin
    knots = choose_bins(same, other)
    same, other = (np.append(counts, 0) for counts in (same, other))  # above 1 nothing is accepted
    accepted = same[knots] / same[0]
    false = other[knots] / other[0]
    alike, apart = (-np.diff(counts[knots], append=0) / counts[0] for counts in (same, other))  # from knot to knot
    rising = rising_share(alike, apart, 1 / min(same[0], other[0]))
    return Calibration(
        fingerprint,
        images,
        int(same[0]),
        int(other[0]),
        tuple(round(lower_edge(int(knot)), 7) for knot in knots),
        tuple(false.tolist()),
        tuple(accepted.tolist()),
        tuple(rising.round(6).tolist()),
    )


def rising_share(alike: np.ndarray, apart: np.ndarray, doubt: float) -> np.ndarray:
    """Return the share of `alike` in both, made to rise, and not surer than so many pairs allow.

    doubt: the weight of a pair of the rarer kind. At a knot the share is at most what all pairs above this knot, or
    above a lower one, show with one such pair more of each kind; and at least what all pairs below this knot, or below
    a higher one, show so. The ends of a table rest on few pairs, and one more at every knot would outweigh them.
    """

    def doubted(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return (first.cumsum() + doubt) / (first.cumsum() + second.cumsum() + 2 * doubt)

    weights = np.maximum(alike + apart, 1e-12)  # a stretch without pairs follows its neighbors
    share = np.where(alike + apart > 0, alike / weights, 0.5)
    most = np.maximum.accumulate(doubted(alike[::-1], apart[::-1])[::-1])
    least = np.minimum.accumulate(doubted(alike, apart)[::-1])[::-1]
    return rising(share, weights).clip(least, most)


def rising(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the values that never fall and are nearest to these, by weighted squares.

    Neighbors that fall are pooled to their weighted mean until nothing does (pool adjacent violators).
    """
    means, masses, lengths = [], [], []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        mean, mass, length = value, weight, 1
        while means and means[-1] >= mean:
            mean = (means.pop() * (before := masses.pop()) + mean * mass) / (before + mass)
            mass, length = before + mass, length + lengths.pop()
        means.append(mean)
        masses.append(mass)
        lengths.append(length)
    return np.repeat(means, lengths)


def choose_bins(same: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the bins of the table: rates of false accepts in equal ratios, of true ones in equal steps, ends."""
    rates = np.geomspace(1 / other[0], 1, KNOTS)
    shares = np.linspace(0, 1, KNOTS // 2)
    # counts fall with the bin, so the first bin at or below a count is found from the other end
    by_rate = len(other) - np.searchsorted(other[::-1], rates * other[0] * (1 + 1e-12), side="right")
    by_share = len(same) - np.searchsorted(same[::-1], shares * same[0], side="right")
    ends = [0, len(other) - np.searchsorted(other[::-1], 0, side="right")]
    return np.unique(np.concatenate([by_rate, by_share, ends]).clip(0, BINS))
