"""CIFAR's binary files, and copies with a folder per class: the same images as the pickles have."""

import numpy as np
import pytest
import torch
from PIL import Image

from shadowmetric.app.data.datasets.cifar10 import CIFAR10, CLASSES
from shadowmetric.app.data.datasets.cifar100 import CIFAR100
from shadowmetric.errors import DataMistake

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 3, 32, 32), dtype=np.uint8)


def write(path, *labels):
    """Write images, each behind its labels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = PIXELS[: len(labels[0])].reshape(len(labels[0]), -1)
    path.write_bytes(np.concatenate([np.array(labels, np.uint8).T, rows], axis=1).tobytes())


def test_the_binary_files_of_cifar10(tmp_path):
    folder = tmp_path / "cifar-10-batches-bin"
    for number in range(1, 6):
        write(folder / f"data_batch_{number}.bin", [number, 0])
    write(folder / "test_batch.bin", [9, 8, 7])
    found = CIFAR10.read(tmp_path, True)
    assert found.train.labels.tolist() == [1, 0, 2, 0, 3, 0, 4, 0, 5, 0]
    assert torch.equal(found.test.images.pixels, torch.from_numpy(PIXELS[:3]))
    assert [found.classes[label] for label in found.test.labels] == ["truck", "ship", "horse"]
    assert "Read from cifar-10-batches-bin: the binary files." in found.notes


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "not a multiple of 3,073"),
        (lambda path: write(path, [10]), "has the label 10 of 10 classes"),
        (lambda path: path.unlink(), "cifar-10-batches-bin/test_batch.bin is not there"),
    ],
)
def test_binary_files_that_are_damaged(tmp_path, change, sentence):
    folder = tmp_path / "cifar-10-batches-bin"
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        write(folder / f"{name}.bin", [1])
    change(folder / "test_batch.bin")
    with pytest.raises(DataMistake, match=sentence):
        CIFAR10.read(tmp_path, True)


def test_the_binary_files_of_cifar100_have_a_coarse_label_first(tmp_path):
    folder = tmp_path / "cifar-100-binary"
    write(folder / "train.bin", [0, 1, 2], [7, 8, 9])
    write(folder / "test.bin", [0, 1], [9, 7])
    (folder / "fine_label_names.txt").write_text("\n".join(f"class {number}" for number in range(10)))
    found = CIFAR100.read(tmp_path, True)
    assert found.train.labels.tolist() == [7, 8, 9]
    assert torch.equal(found.train.images.pixels, torch.from_numpy(PIXELS[:3]))
    assert found.classes[7] == "class 7"


def images(folder, classes, outer=""):
    """Write two training images and a test image of each class; the first pixel of each tells its class."""
    for part, count in (("train", 2), ("test", 1)):
        for label, name in enumerate(classes):
            path = folder / part / outer.format(name[0]) / name
            path.mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (32, 32), (label, number, 7)).save(path / f"{number}.png")


@pytest.mark.parametrize("place", ["cifar10", "CIFAR-10-images", "cifar10/cifar10"])
def test_cifar10_with_a_folder_per_class(tmp_path, place):
    images(tmp_path / place, CLASSES)
    found = CIFAR10.read(tmp_path, True)
    assert found.classes == CLASSES
    assert found.train.labels.tolist() == found.train.images.pixels[:, 0, 0, 0].tolist() == sorted([*range(10)] * 2)
    assert len(found.test) == 10


def test_cifar100_with_folders_of_classes_in_those_of_their_superclasses(tmp_path):
    images(tmp_path / "cifar100", ("apple", "axe", "bee"), outer="super {}")
    found = CIFAR100.read(tmp_path, True)
    assert found.classes == ("apple", "axe", "bee")
    assert found.train.labels.tolist() == [0, 0, 1, 1, 2, 2]


def test_a_part_without_folders_is_named(tmp_path):
    (tmp_path / "cifar10" / "train").mkdir(parents=True)
    with pytest.raises(DataMistake, match="cifar10/train with a folder per class is not there"):
        CIFAR10.read(tmp_path, True)
