"""The command from outside: what is listed, what a check says and returns, what is added, and every mistake."""

import json
import sys
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from shadowmetric.app.cli import data as command
from shadowmetric.app.cli import main
from shadowmetric.app.cli.tables import data as data_table
from shadowmetric.app.data import catalogue
from shadowmetric.app.data.own.folder import read_folder
from shadowmetric.errors import DataMistake


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SHADOWMETRIC_DATA", raising=False)
    return tmp_path


def result(capsys, *tokens):
    """Run the command in this process; return its exit code, output and errors."""
    try:
        main(("data", *tokens))
        code = 0
    except SystemExit as ended:
        code = ended.code
    return code, *capsys.readouterr()


def make_images(folder, names):
    """Save an image of its own for each name, such as a/1.png."""
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (number, 0, 0)).save(path)


PARTED = [f"{part}/{name}/{number}.png" for part in ("train", "test") for name in "ab" for number in range(3)]


def test_the_list(capsys, folder):
    (folder / "data/MNIST/raw").mkdir(parents=True)
    code, out, errors = result(capsys, "list")
    assert (code, errors) == (0, "")
    assert out.startswith("Data root: data\n")
    listed = [line.split() for line in out.partition("Where they come from")[0].splitlines()[4:] if line]
    assert [words[0] for words in listed] == list(catalogue.DATASETS)
    assert [words[0] for words in listed if words[4] == "yes"] == ["glyphs", "digits", "mnist"]
    assert listed[7][:4] == ["cub200", "11,788", "200", "zero-shot"]
    assert "need no archive" in out


def test_the_list_as_json(capsys, folder):
    found = json.loads(result(capsys, "list", "--json", "--data-root", "elsewhere")[1])
    assert found["data_root"] == "elsewhere"
    rows = {row["name"]: row for row in found["datasets"]}
    assert rows["cub200"]["images"] == {"train": 5864, "test": 5924}
    assert rows["digits"]["here"]
    assert not rows["cub200"]["here"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_list_fits_the_terminal(folder, width):
    console = Console(
        width=width, highlight=False, force_terminal=True, color_system=None, record=True, file=sys.stdout
    )
    data_table.print_list(console, folder)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= width
    addresses = "".join(text.split())
    for reader in catalogue.DATASETS.values():
        assert reader.name in text
        assert "".join(reader.terms.split()[:1]) in addresses
    assert ("terms" in text) == (width == 120)


def test_a_check_of_the_embedded_digits(capsys):
    code, out, errors = result(capsys, "check", "digits")
    assert (code, errors) == (0, "")
    assert "train    1,195      1,195        10         10       116 to 122        0" in out
    assert "All 1,797 images can be read." in out
    assert out.endswith("Nothing is wrong.\n")
    assert "Nothing is wrong; no image was decoded." in result(capsys, "check", "digits", "--quick")[1]


def test_a_check_of_own_images_and_what_is_wrong(capsys, folder):
    make_images(folder / "own", PARTED)
    assert result(capsys, "check", "folder:own")[0] == 0
    (folder / "own/train/a/0.png").write_bytes(b"broken")
    (folder / "own/test/b/9.png").write_bytes((folder / "own/train/b/1.png").read_bytes())
    (folder / "own/train/b/8.png").write_bytes((folder / "own/train/b/1.png").read_bytes())
    code, out, _ = result(capsys, "check", "folder:own")
    assert code == 1
    assert "1 image cannot be read:\n  own/train/a/0.png cannot be read as an image" in out
    assert "1 test image has the pixels of a training image:\n  test/b/9.png = train/b/1.png" in out
    assert "train: 1 image has the pixels of another in it:\n  train/b/8.png = train/b/1.png" in out
    assert "Wrong: 1 image cannot be read." in out
    assert "official" not in out
    assert result(capsys, "check", "folder:own", "--quick")[0] == 0


def test_findings_have_an_exit_code_of_their_own(capsys, folder):
    make_images(folder / "own", PARTED)
    (folder / "own/test/b/9.png").write_bytes((folder / "own/train/a/1.png").read_bytes())
    code, out, _ = result(capsys, "check", "folder:own")
    assert code == 3
    assert "Found: 1 test image is among the training images too" in out
    assert "1 image is there with two classes or more:\n  test/b/9.png (b) = train/a/1.png (a)\n" in out
    assert "Found: 1 image has two classes or more" in out
    assert "Nothing is wrong" not in out
    (folder / "own/train/c").mkdir()
    code, out, _ = result(capsys, "check", "folder:own", "--quick")
    assert (code, "Found: 1 class folder has no images: train/c." in out) == (3, True)
    assert "Nothing is wrong" not in out
    (folder / "own/train/a/0.png").write_bytes(b"broken")
    assert result(capsys, "check", "folder:own")[0] == 1  # what is wrong comes first
    found = json.loads(result(capsys, "check", "folder:own", "--json")[1])
    assert [len(found[name]) for name in ("faults", "findings")] == [1, 3]


def test_a_check_as_json(capsys, folder):
    make_images(folder / "own", PARTED)
    (folder / "own/train/a/0.png").write_bytes(b"broken")
    code, out, _ = result(capsys, "check", "folder:own", "--json")
    found = json.loads(out)
    assert code == 1
    assert found["faults"] == ["1 image cannot be read."]
    assert found["parts"]["test"]["smallest"] == ["a", 3]


@pytest.fixture
def toy(monkeypatch):
    """Enter a dataset that is a folder per class below Toy, with twelve images."""

    def read(root, allow_partial):
        if not (root / "Toy").is_dir():
            raise reader.missing(root, "Toy")
        found = read_folder(root / "Toy")
        if len(found.train) != 6 and not allow_partial:
            raise DataMistake("toy: not whole.")
        return found

    counts = {"images": {"train": 6, "test": 6}, "classes": {"train": 2, "test": 2}}
    reader = replace(catalogue.DATASETS["cub200"], name="toy", folder="Toy", kind="standard", read=read, **counts)
    monkeypatch.setitem(catalogue.DATASETS, "toy", reader)
    return reader


def archive(folder, names=PARTED):
    make_images(folder / "source", names)
    with zipfile.ZipFile(folder / "toy.zip", "w") as out:
        for name in names:
            out.write(folder / "source" / name, f"Toy/{name}")


def test_an_archive_is_added_and_checked(capsys, folder, toy):
    archive(folder)
    code, out, errors = result(capsys, "add", "toy", "toy.zip")
    assert (code, errors) == (0, "")
    assert out.startswith("toy.zip: sha256 ")
    assert "toy: train 6 images of 2 classes, test 6 images of 2 classes; in data/Toy\n" in out
    assert result(capsys, "check", "toy")[0] == 0
    (folder / "data/Toy/train/a/0.png").unlink()
    code, out, _ = result(capsys, "check", "toy")
    assert (code, "Wrong: The counts are not the official ones." in out) == (1, True)
    assert result(capsys, "check", "toy", "--allow-partial")[0] == 0


def test_a_partial_archive_must_be_allowed(capsys, folder, toy):
    archive(folder, PARTED[1:])
    assert result(capsys, "add", "toy", "toy.zip") == (2, "", "nothing was added: toy: not whole.\n")
    assert not (folder / "data").exists()
    assert result(capsys, "add", "toy", "toy.zip", "--allow-partial")[0] == 0


def test_a_download(capsys, folder, toy, monkeypatch):
    with_download = replace(toy, download=lambda root: make_images(root / "Toy", PARTED))
    monkeypatch.setitem(catalogue.DATASETS, "toy", with_download)
    code, out, _ = result(capsys, "add", "toy", "--data-root", "elsewhere")
    assert (code, out.strip()) == (
        0,
        "toy: train 6 images of 2 classes, test 6 images of 2 classes; in elsewhere/Toy",
    )
    monkeypatch.setattr(command, "DOWNLOAD_BYTES", 10**18)
    assert "make room" in result(capsys, "add", "toy")[2]


def test_an_interruption(capsys, folder, toy, monkeypatch):
    def interrupted(root):
        raise KeyboardInterrupt

    monkeypatch.setitem(catalogue.DATASETS, "toy", replace(toy, download=interrupted))
    assert result(capsys, "add", "toy") == (130, "", "Stopped; nothing was added.\n")


@pytest.mark.parametrize(
    ("tokens", "sentence"),
    [
        (("check", "minst"), "there is no dataset 'minst'; did you mean mnist"),
        (("check", "cub200"), "get CUB_200_2011.tgz from https://"),
        (("check", "folder:gone"), "gone does not exist; give a folder"),
        (("check", "csv:gone.csv"), "gone.csv cannot be opened"),
        (("check",), "requires an argument"),
        (("add", "digits"), "digits is part of this package; there is nothing to add."),
        (("add", "cub200"), "get CUB_200_2011.tgz from https://"),
        (("add", "cub200", "gone.tgz"), "gone.tgz is not there; name the archive's file."),
        (("add", "folder:x"), "there is no dataset 'folder:x'"),
    ],
)
def test_every_mistake_is_one_sentence(capsys, folder, tokens, sentence):
    code, out, errors = result(capsys, *tokens)
    assert (code, out) == (2, "")
    assert sentence in errors
    assert errors.count("\n") == 1
    assert not (folder / "data").exists()


def test_names_cannot_move_the_cursor(capsys, folder):
    np.savez("a.npz", images=np.arange(12, dtype=np.uint8).reshape(12, 1, 1), labels=["[red]x\x1b[31m"] * 5 + ["b"] * 7)
    out = result(capsys, "check", "npz:a.npz")[1]
    assert "[red]x" in out
    assert "\x1b" not in out
