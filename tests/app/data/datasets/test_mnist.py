"""MNIST and Fashion-MNIST: the four files, what may be partial, and what is refused."""

import gzip
import struct

import numpy as np
import pytest
import torch
from dataset_trees import move
from PIL import Image

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


def same(found, test=10):
    """Look whether a dataset is the one that the fixture writes."""
    assert torch.equal(found.train.images.pixels, torch.from_numpy(IMAGES[:, None]))
    assert found.train.labels.tolist() == LABELS.tolist()
    assert found.test.labels.tolist() == LABELS[:test].tolist()


@pytest.mark.parametrize("place", ["{}", "{}/{}/raw", "raw/of/{}"])
def test_where_people_have_the_four_files(reader, tmp_path, place):
    name = reader.folder.partition("/")[0]
    move(tmp_path, reader.folder, "files")
    place = place.format(name, name)
    move(tmp_path, "files", f"elsewhere/{place}")
    root = tmp_path / "elsewhere" / (place.rpartition("/")[0] if place.startswith("raw") else "")
    same(reader.read(root, True))


@pytest.mark.parametrize("place", ["{0}.idx{1}", "{0}-idx{1}/{0}-idx{1}", "{0}-idx{1}/{0}.idx{1}.gz"])
def test_what_people_call_the_four_files(reader, tmp_path, place):
    folder = tmp_path / reader.folder
    for part, count in (("train", 12), ("t10k", 10)):
        for kind, end, array in (("images", "3-ubyte", IMAGES), ("labels", "1-ubyte", LABELS)):
            for path in folder.glob(f"{part}-{kind}-idx*"):
                path.unlink()
            path = folder / place.format(f"{part}-{kind}", end)
            write(path.parent, path.name, array[:count], gzip.compress if path.suffix == ".gz" else bytes)
    same(reader.read(tmp_path, True))


def lone(reader, tmp_path):
    """Return the folder of a dataset without its four files."""
    folder = tmp_path / reader.folder
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    return folder.parent


@pytest.mark.parametrize("beside", [True, False])
def test_arrays_as_keras_has_them(reader, tmp_path, beside):
    folder = tmp_path if beside else lone(reader, tmp_path)
    name = {"mnist": "mnist.npz", "fashion_mnist": "fashion-mnist.npz"}[reader.name]
    for path in (tmp_path / reader.folder).glob("*") if beside else ():
        path.unlink()
    arrays = {"x_train": IMAGES, "y_train": LABELS, "x_test": IMAGES[:10], "y_test": LABELS[:10]}
    np.savez(folder / name, **arrays)
    same(reader.read(tmp_path, True))
    np.savez(folder / name, **(arrays | {"y_test": LABELS[:10] + 1}))
    with pytest.raises(DataMistake, match="has the label 10; there are 10 classes"):
        reader.read(tmp_path, True)
    np.savez(folder / name, **(arrays | {"y_test": LABELS[:10].astype(str)}))
    with pytest.raises(DataMistake, match="not gray or no numbers"):
        reader.read(tmp_path, True)


@pytest.mark.parametrize("headed", [True, False])
def test_tables_of_pixels(reader, tmp_path, headed):
    folder, name = lone(reader, tmp_path), reader.name.replace("_", "-")
    for part, count in (("train", 12), ("test", 10)):
        rows = np.concatenate([LABELS[:count, None], IMAGES[:count].reshape(count, -1)], axis=1)
        lines = [",".join(["label", *(f"pixel{number}" for number in range(1, 785))])] if headed else []
        (folder / f"{name}_{part}.csv").write_text("\n".join([*lines, *(",".join(map(str, row)) for row in rows)]))
    same(reader.read(tmp_path, True))
    (folder / f"{name}_test.csv").write_text("7,0,300\n")
    with pytest.raises(DataMistake, match=r"test.csv is no table of labels and pixels from 0 to 255"):
        reader.read(tmp_path, True)
    (folder / f"{name}_test.csv").write_text("7,0,30\n")
    with pytest.raises(DataMistake, match="has lines of 3 values, not of 785"):
        reader.read(tmp_path, True)


@pytest.mark.parametrize("parts", [("train", "test"), ("training", "testing")])
def test_a_folder_per_class(reader, tmp_path, parts):
    folder = lone(reader, tmp_path)
    for part, count in zip(parts, (12, 10), strict=True):
        for number in range(count):
            name = "Ankle_boot" if reader is FASHION_MNIST and LABELS[number] == 9 else str(LABELS[number])
            path = folder / part / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(IMAGES[number]).save(path)
    found = reader.read(tmp_path, True)
    order = (
        np.argsort(LABELS, kind="stable")
        if reader is MNIST
        else sorted(range(12), key=lambda number: (str(LABELS[number]) if LABELS[number] < 9 else "Ankle_boot", number))
    )
    assert torch.equal(found.train.images.pixels, torch.from_numpy(IMAGES[order][:, None]))
    assert found.train.labels.tolist() == LABELS[order].tolist()
    assert found.mirrors == (reader is FASHION_MNIST)
    (folder / parts[1] / "ten").mkdir()
    Image.fromarray(IMAGES[0]).save(folder / parts[1] / "ten" / "0.png")
    with pytest.raises(DataMistake, match=r"ten/0.png is in no folder of a class; the classes are"):
        reader.read(tmp_path, True)
