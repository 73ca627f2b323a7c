"""The example of imbalanced classes, at a small size: what it prints is what its mechanisms must give."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from shadowmetric.app.data.catalogue import open_dataset
from shadowmetric.app.data.dataset import Split

EXAMPLE = Path(__file__).parents[2] / "examples" / "imbalanced_medical.py"
PK, SHUFFLED, SEEN = "PK batches, new lesions", "shuffled batches, new lesions", "PK batches, lesions seen"
RAREST = "batches with a pair of the rarest class"


def test_rare_classes_are_in_pk_batches_and_weigh_in_macro_f1(capsys):
    found = runpy.run_path(str(EXAMPLE))["main"](["--epochs", "4", "--seeds", "1"])
    assert list(found) == [PK, SHUFFLED, SEEN]
    assert found[PK][0].figures[RAREST] > 3 * found[SHUFFLED][0].figures[RAREST]
    figures = found[PK][0].figures
    assert figures["macro-F1"] < figures["accuracy"] - 0.05
    assert figures["R-precision over classes"] < figures["R-precision over queries"] - 0.05
    assert set(found[PK][0].recall) == {f"digit {digit}" for digit in range(10)}
    said = capsys.readouterr().out
    assert said.startswith("A stand-in")
    assert f"{100 * figures['macro-F1']:.1f} ± 0.0" in said


def test_the_stand_in_has_lesions_of_three_images_and_one_class():
    example = runpy.run_path(str(EXAMPLE))
    images = example["stand_in"]()
    assert np.bincount(images.labels).tolist() == [3 * count for count in example["LESIONS"]]
    lesions, counts = np.unique(images.lesions, return_counts=True)
    assert set(counts.tolist()) == {3}
    assert all(len(set(images.labels[images.lesions == lesion])) == 1 for lesion in lesions)
    train, test = example["part_images"](images.labels, 1 / 3, groups=images.lesions, least=2)
    assert not set(images.lesions[train]) & set(images.lesions[test])


def test_a_dataset_with_groups_is_read_and_one_without_is_refused():
    example = runpy.run_path(str(EXAMPLE))
    with pytest.raises(SystemExit, match="it has no groups"):
        example["real"]("digits", None, 8, 5)
    train = open_dataset("digits").train
    grouped = Split(train.images, train.labels, np.arange(len(train)) // 2)
    dataset = type("Read", (), {"train": grouped, "classes": tuple("0123456789")})
    example["real"].__globals__["open_dataset"] = lambda data, root: dataset
    images = example["real"]("ham10000", None, 8, 5)
    assert images.images.shape == (50, 1, 8, 8)
    assert np.bincount(images.labels).tolist() == [5] * 10
