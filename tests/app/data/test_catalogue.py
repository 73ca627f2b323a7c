"""Every name, where the data root is, and what somebody may have meant."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shadowmetric.app.data.catalogue import DATASETS, find_reader, is_here, is_own, open_dataset
from shadowmetric.app.data.dataset import STANDARD, ZERO_SHOT
from shadowmetric.app.data.root import data_root
from shadowmetric.errors import DataMistake

NAMES = "glyphs digits mnist fashion_mnist cifar10 cifar100 tiny_imagenet cub200 cars196 sop inshop ham10000 odir5k"


def test_the_names_and_what_each_states():
    assert " ".join(DATASETS) == NAMES
    for name, reader in DATASETS.items():
        assert reader.name == name
        assert reader.kind in (ZERO_SHOT, STANDARD)
        assert reader.images.keys() == reader.classes.keys() >= {"train", "test"}
        assert reader.source
        assert reader.terms


def test_nothing_heavy_is_imported_for_the_names():
    heavy = "torchvision", "PIL", "scipy", "openpyxl", "timm"
    program = f"import sys, shadowmetric.app.data.catalogue; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_data_root(monkeypatch):
    monkeypatch.delenv("SHADOWMETRIC_DATA", raising=False)
    assert data_root() == Path("data")
    monkeypatch.setenv("SHADOWMETRIC_DATA", "/some/where")
    assert data_root() == Path("/some/where")
    assert data_root(Path("here")) == Path("here")


def test_names_may_be_spelt_either_way():
    assert find_reader("Fashion-MNIST") is DATASETS["fashion_mnist"]
    assert len(open_dataset("digits").train) == 1195


def test_the_split_by_classes():
    found = open_dataset("digits", split="classes")
    assert found.kind == ZERO_SHOT
    assert set(found.train.labels) == {0, 1, 2, 3, 4}
    with pytest.raises(DataMistake, match="the split is 'clases'; choose one of official, classes"):
        open_dataset("digits", split="clases")


def test_own_images(tmp_path, monkeypatch):
    for number in range(4):
        path = tmp_path / "images" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (3, 3), number).save(path)
    lines = ["path,label", *(f"images/{'ab'[number % 2]}/{number}.png,{number % 2}" for number in range(4))]
    (tmp_path / "table.csv").write_text("\n".join(lines))
    np.savez(tmp_path / "arrays.npz", images=np.zeros((4, 3, 3), np.uint8), labels=[0, 1, 0, 1])
    monkeypatch.setenv("HOME", str(tmp_path))
    for data in (f"folder:{tmp_path}/images", f"csv:{tmp_path}/table.csv", "npz:~/arrays.npz"):
        found = open_dataset(data)
        assert (len(found.train), len(found.test)) == (2, 2)
        assert found.name.startswith(data.partition(":")[0])
        assert open_dataset(data, split="classes").kind == ZERO_SHOT


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("minst", "there is no dataset 'minst'; did you mean mnist"),
        ("cub", "did you mean .*cub200"),
        ("zzzz", "choose one of glyphs, digits, mnist, .*, or folder:PATH, csv:FILE, npz:FILE"),
        ("file:x", "there is no dataset 'file:x'"),
        ("images", "for your own images write folder:images"),
        ("table.csv", "for your own images write csv:table.csv"),
        ("gone.csv", "choose one of"),
    ],
)
def test_what_somebody_may_have_meant(tmp_path, monkeypatch, name, sentence):
    monkeypatch.chdir(tmp_path)
    Path("images").mkdir()
    Path("table.csv").touch()
    with pytest.raises(DataMistake, match=sentence):
        open_dataset(name)


def test_own_images_are_told_from_names():
    assert [data for data in ("csv:a", "folder:", "csv", "digits", "zip:a") if is_own(data)] == ["csv:a", "folder:"]


def test_what_is_here(tmp_path):
    assert is_here(DATASETS["digits"], tmp_path / "nowhere")
    assert not is_here(DATASETS["cifar100"], tmp_path)
    (tmp_path / "cifar100-png").mkdir()
    assert is_here(DATASETS["cifar100"], tmp_path)
    assert not is_here(DATASETS["cifar10"], tmp_path)
