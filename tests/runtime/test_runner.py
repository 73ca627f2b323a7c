"""The stand-alone runner, for real: in an environment with numpy, pillow and onnxruntime, where torch is not."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shadowmetric.app.serving.galleries.file_gallery import FileGallery
from shadowmetric.app.serving.verification.verifying import cosine_of
from shadowmetric.runtime import runner
from shadowmetric.runtime.digests import Digests
from shadowmetric.runtime.images import open_image
from shadowmetric.runtime.index_file import read_index
from shadowmetric.runtime.model import OnnxModel
from shadowmetric.runtime.threshold import calibration_from

pytest_plugins = ["exported_fixtures"]
WANTED = ("onnxruntime", "numpy", "pillow")


@pytest.fixture(scope="module")
def small_python(tmp_path_factory):
    """Return a Python that has the three packages and nothing else: a venv with links to the files of this one's."""
    folder = tmp_path_factory.mktemp("small") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, capture_output=True)
    [site] = folder.glob("lib/python*/site-packages") if os.name != "nt" else [folder / "Lib" / "site-packages"]
    for name in WANTED:
        for top in {Path(file).parts[0] for file in importlib.metadata.files(name) or ()} - {"..", "__pycache__"}:
            source = Path(str(importlib.metadata.distribution(name).locate_file(top)))
            if source.exists() and not (site / top).exists():
                (site / top).symlink_to(source)
    return next(path for path in (folder / "bin" / "python", folder / "Scripts" / "python.exe") if path.exists())


@pytest.fixture
def copy(bundled, tmp_path):
    return shutil.copytree(bundled.folder, tmp_path / "bundle", ignore=shutil.ignore_patterns(".*"))


@pytest.fixture
def device(small_python, copy, images):
    """Return a function that runs a command in the copy of the bundle."""

    def run(*words, code=0, cwd=copy):
        command = [str(small_python), "-m", "device", *map(str, words)]
        ended = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=without_python())
        assert ended.returncode == code, ended.stderr
        assert "Traceback" not in ended.stderr
        return ended

    return run


def without_python():
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def one_line(text):
    assert text.count("\n") == 1
    return text


def test_the_environment_has_the_three_packages_and_no_torch(small_python):
    for name in ("numpy", "PIL", "onnxruntime"):
        subprocess.run([str(small_python), "-c", f"import {name}"], check=True, env=without_python())
    for name in ("torch", "shadowmetric", "scipy", "onnx"):
        ended = subprocess.run(
            [str(small_python), "-c", f"import {name}"], capture_output=True, text=True, env=without_python()
        )
        assert f"No module named '{name}'" in ended.stderr


def test_search_gives_the_products_answers(device, copy, images):
    queries = [images / "digit 3" / "0.png", images / "digit 7" / "2.png"]
    found = json.loads(device("search", *queries, "--top", 5, "--json").stdout)
    gallery, model = FileGallery(copy / "index.shadowmx"), OnnxModel(copy / "model.onnx")
    rows = model.embed(np.stack([model.about.shape.square(open_image(query)) for query in queries]))
    for one, query, hits in zip(found, queries, gallery.nearest(rows, 5), strict=True):
        assert one["query"] == str(query)
        assert [(hit["key"], hit["path"], hit["label"]) for hit in one["hits"]] == [tuple(hit.entry) for hit in hits]
        np.testing.assert_allclose([hit["similarity"] for hit in one["hits"]], [h.similarity for h in hits], atol=1e-5)
    assert found[0]["hits"][0]["path"] == "digit 3/0.png"


def test_search_within_a_class_and_in_words(device, images):
    said = device("search", images / "digit 3" / "0.png", "--class", "digit 5", "--top", 3).stdout.splitlines()
    assert len(said) == 4
    assert all("digit 5/" in line for line in said[1:])
    refused = device("search", images / "digit 3" / "0.png", "--class", "digit 11", code=2)
    assert "no image has the class 'digit 11'" in one_line(refused.stderr)


def test_verify_gives_the_products_answer(device, copy, images):
    model = OnnxModel(copy / "model.onnx")
    calibration = calibration_from(json.loads((copy / "calibration.json").read_text()), "it")
    for first, second in (("digit 1/0.png", "digit 1/1.png"), ("digit 1/0.png", "digit 8/0.png")):
        ours = calibration.decide(cosine_of(model, images / first, images / second), 0.05)
        theirs = json.loads(
            device("verify", images / first, images / second, "--false-accept-rate", 0.05, "--json").stdout
        )
        assert theirs == pytest.approx(ours.__dict__, abs=1e-6)
        ours = calibration.decide(ours.cosine, prior=0.1)
        theirs = json.loads(device("verify", images / first, images / second, "--prior", 0.1, "--json").stdout)
        assert theirs == pytest.approx(ours.__dict__, abs=1e-6)
    said = device("verify", images / first, images / first).stdout
    assert said.startswith("the same\nPairs as alike as these show the same in ")
    assert "cosine" not in said
    assert "The cosine is 1.000; from " in device("verify", images / first, images / first, "--explain").stdout
    assert "the prior is 2" in one_line(device("verify", images / first, images / first, "--prior", 2, code=2).stderr)
    assert "rate of false accepts is 2" in one_line(
        device("verify", images / first, images / first, "--false-accept-rate", 2, code=2).stderr
    )


def test_an_image_that_was_added_is_found(device, copy, tmp_path):
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 20)).astype(np.uint8)).save(copy / "a new.png")
    before = read_index(copy / "index.shadowmx")[1]
    said = device("add", "./a new.png", "--class", "noise").stdout
    assert "1 added, 0 replaced; the index has 41 images." in said
    _, contents = read_index(copy / "index.shadowmx")
    assert list(contents.paths) == sorted([*before.paths, "a new.png"])
    assert {contents.entry(number).label for number in range(41)} == {*before.classes, "noise"}
    for number, path in enumerate(contents.paths):  # nobody else's row, class or content has changed
        if path != "a new.png":
            old = list(before.paths).index(path)
            assert contents.entry(number) == before.entry(old)
            np.testing.assert_array_equal(contents.rows[number], before.rows[old])
            np.testing.assert_array_equal(contents.hashes[number], before.hashes[old])
    [found] = json.loads(device("search", "a new.png", "--top", 1, "--json").stdout)
    assert (found["hits"][0]["path"], found["hits"][0]["label"]) == ("a new.png", "noise")
    assert found["hits"][0]["similarity"] == pytest.approx(1, abs=1e-3)
    assert "41 images of 11 classes" in device("info").stdout


def test_the_same_image_is_added_once_and_again_when_it_has_changed(device, copy):
    pixels = np.random.default_rng(0).integers(0, 256, (20, 20)).astype(np.uint8)
    Image.fromarray(pixels).save(copy / "a new.png")
    device("add", "a new.png")
    stored = (copy / "index.shadowmx").read_bytes()
    refused = device("add", "a new.png", code=1)
    assert "a new.png is in the index already, with the same content and class" in one_line(refused.stderr)
    assert (copy / "index.shadowmx").read_bytes() == stored
    replaced = "0 added, 1 replaced; the index has 41 images."
    assert replaced in device("add", "a new.png", "--class", "noise").stdout, "a class can be corrected"
    [found] = json.loads(device("search", "a new.png", "--top", 1, "--class", "noise", "--json").stdout)
    assert found["hits"][0]["path"] == "a new.png"
    Image.fromarray(255 - pixels).save(copy / "a new.png")
    assert replaced in device("add", "a new.png", "--class", "noise").stdout
    [found] = json.loads(device("search", "a new.png", "--top", 1, "--json").stdout)
    assert found["hits"][0]["similarity"] == pytest.approx(1, abs=1e-3)


def test_broken_images_are_named_and_the_rest_goes_on(device, copy, images):
    (copy / "broken.png").write_bytes(b"no image")
    whole = images / "digit 3" / "0.png"
    os.mkfifo(copy / "pipe.png")
    ended = device("search", "broken.png", whole, copy / "nowhere.png", "pipe.png", ".", "--top", 1, code=1)
    assert "digit 3/0.png" in ended.stdout
    first, second, *others = ended.stderr.splitlines()
    assert others == ["pipe.png is a pipe or a device and no file; name an image.", ". is a folder; name an image."]
    assert "broken.png cannot be read as an image" in first
    assert "nowhere.png cannot be read (No such file or directory)" in second
    assert "1 added" in device("add", "broken.png", whole, code=1).stdout
    assert "broken.png" in one_line(device("verify", "broken.png", whole, code=1).stderr)


def test_it_starts_from_anywhere_with_the_bundle_named(device, copy, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    shutil.copytree(copy / "device", tmp_path / "elsewhere" / "device")
    assert "40 images of 10 classes" in device("--bundle", copy, "info", cwd=tmp_path / "elsewhere").stdout
    said = device("info", code=2, cwd=tmp_path / "elsewhere").stderr
    assert "is no bundle: there is no model.onnx in it; name one by --bundle." in one_line(said)


@pytest.mark.parametrize(
    ("name", "stored", "sentence"),
    [
        ("index.shadowmx", b"shadowmx", "is cut short"),
        ("index.shadowmx", b"something else", "is no index"),
        ("model.onnx", b"something else", "model.onnx is not as it was written"),
    ],
)
def test_damaged_files_are_one_sentence(device, copy, images, name, stored, sentence):
    (copy / name).write_bytes(stored)
    assert sentence in one_line(device("search", images / "digit 3" / "0.png", code=2).stderr)


def test_an_index_or_a_threshold_of_another_model_is_refused(device, copy, exported, images):
    other = exported.files["fp32"].read_bytes()
    Digests(copy).write(copy / "model.onnx", lambda place: place.write_bytes(other))
    whole = images / "digit 3" / "0.png"
    assert "was made by another model" in one_line(device("search", whole, code=2).stderr)
    assert "was measured with another model" in one_line(device("verify", whole, whole, code=2).stderr)
    Digests(copy).write(copy / "calibration.json", lambda place: place.write_text("{"))
    assert "calibration.json cannot be read" in one_line(device("verify", whole, whole, code=2).stderr)


def test_what_is_not_installed_is_named(copy, tmp_path):
    (tmp_path / "hidden").mkdir()
    for name in ("numpy", "onnxruntime"):
        shutil.rmtree(tmp_path / "hidden")
        (tmp_path / "hidden").mkdir()
        (tmp_path / "hidden" / f"{name}.py").write_text(f"raise ModuleNotFoundError('none', name={name!r})")
        ended = subprocess.run(
            [sys.executable, "-m", "device", "info"],
            cwd=copy,
            capture_output=True,
            text=True,
            check=False,
            env={**without_python(), "PYTHONPATH": str(tmp_path / "hidden")},
        )
        assert ended.returncode in (1, 2)
        assert one_line(ended.stderr) == f"{name} is not installed; run `pip install -r requirements.txt`.\n"


def test_torch_is_not_imported_even_where_it_is_installed(copy, images):
    code = (
        "import sys; sys.argv = ['device', 'search', sys.argv[1]]\n"
        "from device.runner import main; main()\n"
        "print([name for name in ('torch', 'shadowmetric') if name in sys.modules])"
    )
    words = [sys.executable, "-c", code, str(images / "digit 3" / "0.png")]
    ended = subprocess.run(words, cwd=copy, capture_output=True, text=True, check=True, env=without_python())
    assert ended.stdout.splitlines()[-1] == "[]"


def test_names_cannot_command_the_terminal(capsys, copy, images):
    name = copy / "a\x1b[2Jb.png"
    shutil.copy(images / "digit 3" / "0.png", name)
    assert runner.main(["--bundle", str(copy), "add", str(name)]) == 0
    assert runner.main(["--bundle", str(copy), "search", str(name)]) == 0
    assert runner.main(["--bundle", str(copy), "search", "\x1b[2J.png"]) == 1
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    assert "a?[2Jb.png" in said.out


def test_two_that_add_at_once_lose_nothing(copy, small_python):
    names = [f"{number}.png" for number in range(4)]
    for number, name in enumerate(names):
        pixels = np.random.default_rng(number).integers(0, 256, (9, 9)).astype(np.uint8)
        Image.fromarray(pixels).save(copy / name)
    command = [str(small_python), "-m", "device", "add"]
    started = [
        subprocess.Popen([*command, name], cwd=copy, stdout=subprocess.PIPE, env=without_python()) for name in names
    ]
    assert [(one.communicate(), one.returncode)[1] for one in started] == [0] * 4
    assert set(names) <= set(read_index(copy / "index.shadowmx")[1].paths)
