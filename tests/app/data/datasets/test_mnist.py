"""MNIST and Fashion-MNIST: the four files, what may be partial, and what is refused."""

import gzip
import struct

import numpy as np
import pytest
import torch

from shadowmetric.app.data.datasets.fashion_mnist import FASHION_MNIST
from shadowmetric.app.data.datasets.mnist import ARCHIVES, MNIST
from shadowmetric.errors import DataMistake

RANDOM = np.random.default_rng(0)
IMAGES, LABELS = RANDOM.integers(0, 256, (12, 28, 28), dtype=np.uint8), np.arange(12, dtype=np.uint8) % 10


def write(folder, name, array, pack=bytes):
    header = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(pack(header + array.tobytes()))


@pytest.fixture(params=[MNIST, FASHION_MNIST], ids=["mnist", "fashion_mnist"])
def reader(request, tmp_path):
    folder = tmp_path / request.param.folder
    write(folder, "train-images-idx3-ubyte", IMAGES)
    write(folder, "train-labels-idx1-ubyte", LABELS)
    write(folder, "t10k-images-idx3-ubyte.gz", IMAGES[:10], gzip.compress)
    write(folder, "t10k-labels-idx1-ubyte.gz", LABELS[:10], gzip.compress)
    return request.param


def test_a_small_copy(reader, tmp_path):
    found = reader.read(tmp_path, True)
    assert torch.equal(found.train.images.pixels, torch.from_numpy(IMAGES[:, None]))
    assert found.train.labels.tolist() == LABELS.tolist()
    assert len(found.test) == 10
    assert found.mirrors == (reader is FASHION_MNIST)
    assert found.classes[9] == {"mnist": "9", "fashion_mnist": "Ankle boot"}[reader.name]
    assert "train has 12 images of 10 classes, officially 60,000 of 10" in found.notes[0]
    with pytest.raises(DataMistake, match="allow this with --allow-partial"):
        reader.read(tmp_path, False)


def test_what_is_missing_is_named_with_the_remedy(reader, tmp_path):
    (tmp_path / reader.folder / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataMistake, match=f"t10k-labels-idx1-ubyte is not there .*data add {reader.name}` downloads"):
        reader.read(tmp_path, True)


@pytest.mark.parametrize(
    ("name", "array", "sentence"),
    [
        ("train-images-idx3-ubyte", IMAGES[:, :27], r"images of \(27, 28\)"),
        ("train-images-idx3-ubyte", IMAGES[:11], "11 images and .* 12 labels"),
        ("train-labels-idx1-ubyte", LABELS + 1, "has the label 10; there are 10 classes"),
    ],
)
def test_what_is_refused(reader, tmp_path, name, array, sentence):
    write(tmp_path / reader.folder, name, array)
    with pytest.raises(DataMistake, match=sentence):
        reader.read(tmp_path, True)


def test_the_archives_are_torchvision_s():
    import torchvision.datasets

    assert set(ARCHIVES) == {name for name, _ in torchvision.datasets.MNIST.resources}
