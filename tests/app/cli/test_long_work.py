"""Where no terminal is, long work says a line now and then on standard error, and nothing else anywhere."""

import re

import numpy as np
import pytest
from image_folders import ran, write_folder, write_run

from shadowmetric import progress
from shadowmetric.app.training import show

LINE = re.compile(r"^\d:\d\d:\d\d  \S")


@pytest.fixture(autouse=True)
def everything_is_long(tmp_path, monkeypatch):
    """Say every stage at once; conftest.py says none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "QUIET", 0.0)
    monkeypatch.setattr(show, "FIRST", 0.0)
    monkeypatch.setattr(show, "MINUTE", 0.0)


def lines(said):
    """Return the lines of a log, of which each must begin with a time."""
    found = said.err.splitlines()
    assert found
    assert all(LINE.match(line) for line in found), found
    return " | ".join(found)


def test_index(capsys, tmp_path):
    write_run(tmp_path / "run")
    write_folder(tmp_path / "photos")
    said = ran(capsys, "index", "run", "photos")
    assert "embedding" in lines(said)
    assert "%" not in said.out


def test_evaluate(capsys, tmp_path):
    rows = np.random.default_rng(0).normal(size=(50, 4)).astype("f4")
    np.savez("set.npz", embeddings=rows, labels=np.arange(50) % 5)
    heard = lines(ran(capsys, "evaluate", "set.npz", "--json"))
    assert "retrieval" in heard
    assert "intervals" in heard


def test_evaluate_of_a_run(capsys, tmp_path):
    write_run(tmp_path / "run")
    assert "embedding" in lines(ran(capsys, "evaluate", "run", "--measures", "recall_at"))


def test_data_check(capsys):
    assert "decode train" in lines(ran(capsys, "data", "check", "digits"))


def test_train(capsys):
    words = ("--device", "cpu", "--epochs", "1", "--batches", "2", "--batch", "20", "--per-class", "2")
    heard = ran(capsys, "train", *words).err
    assert "epoch 1/1 batch 1 of 2  loss " in heard
    assert "epoch 1: " in heard
    assert "test split: embedding: 100 %" in heard
