"""CIFAR's pickles: read if they are the official bytes, and never run."""

import hashlib
import io
import os
import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from shadowmetric.app.data.datasets import cifar10, cifar100
from shadowmetric.app.data.datasets.cifar10 import CIFAR10
from shadowmetric.app.data.datasets.cifar100 import CIFAR100
from shadowmetric.app.data.datasets.formats.cifar_pickles import ArrayUnpickler, read_pickle
from shadowmetric.errors import DataMistake

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 3072), dtype=np.uint8)


class Harm:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def write(path, value):
    """Write a pickle as the official ones are; return its md5."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(value, protocol=3))
    return hashlib.md5(path.read_bytes()).hexdigest()


@pytest.fixture
def cifar10_copy(tmp_path, monkeypatch):
    folder = tmp_path / CIFAR10.folder
    values = {name: {"data": PIXELS + number, "labels": [number, 1, 2, 3]} for number, name in enumerate(cifar10.SUMS)}
    values["batches.meta"] = {"label_names": list("abcdefghij")}
    monkeypatch.setattr(cifar10, "SUMS", {name: write(folder / name, value) for name, value in values.items()})
    return tmp_path


def test_cifar10_in_the_order_of_its_files(cifar10_copy):
    found = CIFAR10.read(cifar10_copy, True)
    assert (len(found.train), len(found.test)) == (20, 4)
    assert found.train.labels[::4].tolist() == [0, 1, 2, 3, 4]
    assert found.test.labels.tolist() == [5, 1, 2, 3]
    assert torch.equal(found.test.images.pixels, torch.from_numpy((PIXELS + 5).reshape(4, 3, 32, 32)))
    assert found.classes == tuple("abcdefghij")
    with pytest.raises(DataMistake, match="officially 50,000"):
        CIFAR10.read(cifar10_copy, False)


def test_a_missing_file_is_named(cifar10_copy):
    (cifar10_copy / CIFAR10.folder / "data_batch_3").unlink()
    with pytest.raises(DataMistake, match="cifar-10-batches-py/data_batch_3 is not there"):
        CIFAR10.read(cifar10_copy, True)


def test_a_pickle_with_another_md5_is_never_opened(tmp_path, monkeypatch):
    path = tmp_path / "data_batch_1"
    write(path, {"data": PIXELS, "labels": [0] * 4})
    monkeypatch.setattr(ArrayUnpickler, "load", lambda self: pytest.fail("it was opened"))
    with pytest.raises(DataMistake, match=f"and the official file {'0' * 32}, so it was not opened"):
        read_pickle(path, "0" * 32)


def test_even_a_pickle_with_the_right_md5_runs_nothing(tmp_path):
    md5 = write(tmp_path / "harm", {"data": Harm(tmp_path / "harmed")})
    with pytest.raises(DataMistake, match=r"asks for posix.mkdir|asks for nt.mkdir"):
        read_pickle(tmp_path / "harm", md5)
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize("module", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_arrays_of_old_and_new_numpy_are_read(module):
    content = pickle.dumps(PIXELS, protocol=3).replace(b"numpy._core.multiarray", module.encode())
    assert module.encode() in content
    assert np.array_equal(ArrayUnpickler(io.BytesIO(content), encoding="latin1").load(), PIXELS)


@pytest.mark.parametrize("call", [("os", "system"), ("numpy", "load"), ("builtins", "eval"), ("numpy.core", "dtype")])
def test_nothing_but_parts_of_arrays_is_found(call):
    with pytest.raises(pickle.UnpicklingError, match="no part of an array"):
        ArrayUnpickler(io.BytesIO(b"")).find_class(*call)


def test_the_sums_are_torchvision_s():
    from torchvision import datasets

    for ours, theirs in ((cifar10.SUMS, datasets.CIFAR10), (cifar100.SUMS, datasets.CIFAR100)):
        meta = theirs.meta
        assert ours == dict([*theirs.train_list, *theirs.test_list, (meta["filename"], meta["md5"])])


def test_cifar100_has_fine_labels(tmp_path, monkeypatch):
    values = {
        "train": {"data": PIXELS, "fine_labels": [7, 8, 9, 7], "coarse_labels": [0] * 4},
        "test": {"data": PIXELS + 1, "fine_labels": [9, 9, 8, 7]},
        "meta": {"fine_label_names": [f"class {n}" for n in range(100)], "coarse_label_names": []},
    }
    folder = tmp_path / CIFAR100.folder
    monkeypatch.setattr(cifar100, "SUMS", {name: write(folder / name, value) for name, value in values.items()})
    found = CIFAR100.read(tmp_path, True)
    assert found.train.labels.tolist() == [7, 8, 9, 7]
    assert found.classes[7] == "class 7"


@pytest.fixture
def images(tmp_path):
    for part, count in (("train", 3), ("test", 2)):
        for label, name in enumerate(("apple", "bee")):
            folder = tmp_path / "cifar100-png" / part / name
            folder.mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (32, 32), (label, number, 7)).save(folder / f"{number}.png")
    return tmp_path


def test_cifar100_from_a_folder_per_class(images):
    found = CIFAR100.read(images, True)
    assert found.train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.train.images.pixels[:, :, 0, 0].tolist() == [[label, n, 7] for label in (0, 1) for n in range(3)]
    assert found.classes == ("apple", "bee")
    assert "Read from cifar100-png" in found.notes[0]
    assert "A partial copy" in found.notes[1]


def test_a_folder_per_class_is_whole_or_allowed_to_be_partial(images):
    with pytest.raises(DataMistake, match="train has 6 images of 2 classes, officially 50,000 of 100"):
        CIFAR100.read(images, False)


def test_wrong_and_broken_images_are_named(images):
    path = images / "cifar100-png/test/bee/1.png"
    Image.new("RGB", (31, 32)).save(path)
    with pytest.raises(DataMistake, match=r"test/bee/1.png is 3 × 32 × 31, not 3 × 32 × 32"):
        CIFAR100.read(images, True)
    path.write_bytes(b"no image")
    with pytest.raises(DataMistake, match=r"1.png cannot be read as an image .*; get it again"):
        CIFAR100.read(images, True)


def test_pickles_come_before_a_folder_per_class(images):
    write(images / CIFAR100.folder / "meta", {})
    with pytest.raises(DataMistake, match="cifar-100-python/train is not there"):
        CIFAR100.read(images, True)
