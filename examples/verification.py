"""The same, or not? A threshold with a rate of false accepts, on classes that training never saw.

    python examples/verification.py                              made-up marks, 120 of them
    python examples/verification.py --data folder:faces --size 64     your own: a folder per person, at least 12 of them

Classes are parted in three: half train, a quarter chooses the threshold, a quarter checks it. It prints

1. for each wanted rate of false accepts: the threshold chosen on the validation classes, and what it does to pairs of
   the test classes; beside it what the threshold does that pairs of the *training* classes suggest, which know too much
2. whether the confidence is honest: of test pairs that it calls 90 % sure, how many are of one class?
3. one pair of images, as `shadowmetric verify RUN ONE OTHER` decides it

Without --data the images are a stand-in: smooth random marks of 16 pixels, each photographed 12 times with another
light, place and noise. On two cores it takes about half a minute. Ours: a threshold for 1 % of false accepts lets
through 1.21 % of the pairs of new classes and finds 44.9 % of those of one class; the one that the training classes
suggest lets through 1.56 %. For 0.1 %: 0.09, 19.7 and 0.18 %.

A false accept is a pair of two classes that is taken for one. With 30 test classes the measured rate is uncertain
itself: pairs share images, and one odd class moves it. New cameras move it more.
"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import nn

from shadowmetric.app import serving
from shadowmetric.app.data.catalogue import open_dataset
from shadowmetric.app.data.preprocessing import preprocessing_for
from shadowmetric.app.data.splits import part_classes
from shadowmetric.app.serving.model import open_model
from shadowmetric.app.serving.verification.calibration import calibrate
from shadowmetric.app.training.loop import train
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.errors import Mistake
from shadowmetric.evaluation.verification import verification

RATES = (0.1, 0.01, 0.001)
SIDE, PHOTOS = 16, 12


class Row(NamedTuple):
    """What a wanted rate of false accepts has come to."""

    wanted: float
    threshold: float  # chosen on the validation classes
    false_accepts: float  # measured on the test classes
    true_accepts: float
    naive: float  # false accepts on the test classes, of the threshold that the training classes suggest


class Found(NamedTuple):
    """What the example has shown."""

    rows: list[Row]
    sure: float  # share of one class among test pairs that are called 90 % sure, both kinds weighing the same
    same: bool  # what verify said of two images of one test class


def marks(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images (images, side, side) uint8 of so many marks, and which mark each shows."""
    generator = torch.Generator().manual_seed(0)
    fields = torch.randn(count, 1, 5, 5, generator=generator)
    smooth = nn.functional.interpolate(fields, SIDE + 4, mode="bicubic", align_corners=True)[:, 0]
    images = []
    for mark in smooth:
        for _ in range(PHOTOS):
            left, top = torch.randint(0, 5, (2,), generator=generator).tolist()
            light, noise = torch.rand(2, generator=generator).tolist()
            one = mark[top : top + SIDE, left : left + SIDE] * (30 + 30 * light) + 128 + 80 * (noise - 0.5)
            one = one + 12 * torch.randn(SIDE, SIDE, generator=generator)
            images.append(one.clamp(0, 255).to(torch.uint8).numpy())
    return np.stack(images), np.repeat(np.arange(count), PHOTOS)


def read(data: str, root: Path | None, size: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the squares of a dataset, both parts together, and their labels."""
    parts = open_dataset(data, root).parts().values()
    shape = preprocessing_for(next(iter(parts)).images, size, size)
    squares = [
        shape(part.images.read(number)).permute(1, 2, 0).numpy() for part in parts for number in range(len(part))
    ]
    return np.stack(squares), np.concatenate([part.labels for part in parts])


def pairs(rows: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the cosines of all pairs of one class, and of two."""
    one, other = np.triu_indices(len(rows), k=1)
    cosines = (rows @ rows.T)[one, other]
    same = labels[one] == labels[other]
    return cosines[same], cosines[~same]


def main(arguments: list[str] | None = None) -> Found:
    """Train, choose thresholds, check them."""
    parser = argparse.ArgumentParser(description="The same, or not?")
    parser.add_argument("--data", help="folder:PATH or another dataset; without, marks are made up")
    parser.add_argument("--data-root", type=Path, help="where named datasets lie")
    parser.add_argument("--size", type=int, help="pixels, with --data")
    parser.add_argument("--out", type=Path, default=Path("runs/verification"), help="for all that is written")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--marks", type=int, default=120, help="that are made up")
    options = parser.parse_args(arguments)
    made_up = options.data is None
    images, labels = marks(options.marks) if made_up else read(options.data, options.data_root, options.size)
    learn, rest = part_classes(labels, 0.5)
    choose, check = (rest[some] for some in part_classes(labels[rest], 0.5))

    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "images.npz"  # training classes, and those that choose the threshold: the run's test part
    parts = {"train_images": images[learn], "train_labels": labels[learn]}
    np.savez(file, **parts, test_images=images[choose], test_labels=labels[choose])
    scores = train(TrainSettings(data=f"npz:{file}", epochs=options.epochs), options.out / "run")
    counts = [len(np.unique(labels[some])) for some in (learn, choose, check)]
    print("A stand-in: made-up marks." if made_up else options.data)
    print(f"{counts[0]} classes train, {counts[1]} choose the threshold, {counts[2]} check it.", end=" ")
    print(f"Recall@1 on those that choose: {100 * scores['recall_at_1']:.1f} %.")

    model = open_model(options.out / "run")
    squares = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    rows = np.concatenate([model.embed(squares[start : start + 64]) for start in range(0, len(squares), 64)])
    calibration = calibrate(Run(options.out / "run"), model)
    suggested = verification(torch.from_numpy(rows[learn]), torch.from_numpy(labels[learn]), false_accept_rates=RATES)
    same, other = pairs(rows[check], labels[check])
    print(
        "\nFalse accepts, per cent: wanted, measured on new classes; true accepts; if the training classes had chosen"
    )
    table = []
    for rate in RATES:
        threshold = calibration.decide(1.0, rate).threshold
        naive = float((other >= suggested.thresholds[rate]).mean())
        table.append(
            row := Row(rate, threshold, float((other >= threshold).mean()), float((same >= threshold).mean()), naive)
        )
        print(
            f"   {100 * rate:6.1f}{100 * row.false_accepts:10.2f}{100 * row.true_accepts:8.1f}{100 * naive:8.2f}",
            end="",
        )
        print(f"   threshold {threshold:.3f}")

    confident = [
        np.mean([calibration.confidence_at(cosine) >= 0.9 for cosine in kind.tolist()]) for kind in (same, other)
    ]
    sure = float(confident[0] / max(sum(confident), 1e-12))
    print(f"\nOf new pairs that are called 90 % sure or more, {100 * sure:.1f} % are of one class,", end=" ")
    print("if both kinds are equally frequent.")

    two = check[labels[check] == labels[check[0]]][:2]
    files = [options.out / name for name in ("one.png", "other.png")]
    for number, file in zip(two, files, strict=True):
        Image.fromarray(images[number]).save(file)
    said = serving.verify(options.out / "run", *files)
    print(f"Two images of one new class: {'the same' if said.same else 'different'},", end=" ")
    print(f"with a probability of {100 * said.probability:.0f} %, if every second pair is of one class.")
    return Found(table, sure, said.same)


if __name__ == "__main__":
    try:
        main()
    except Mistake as error:  # such as a folder that is not there: a sentence, and no traceback
        sys.exit(str(error))
