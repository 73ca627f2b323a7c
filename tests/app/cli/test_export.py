"""`shadowmetric export`: the table, the exit code of a refusal, the bundle, and the mistakes people make."""

import json
import shutil
from dataclasses import replace

import pytest

from shadowmetric.app.cli import export as command
from shadowmetric.app.cli import main
from shadowmetric.app.serving.exporting import bundle as bundling
from shadowmetric.app.serving.exporting import export as exporting
from shadowmetric.app.serving.exporting import parity

pytest_plugins = ["exported_fixtures"]


@pytest.fixture(autouse=True)
def quick_in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(parity, "resident_bytes", lambda place, of_run: 5_000_000)
    monkeypatch.setattr(parity, "REPEATS", 1)


def run(capsys, *words, code=0):
    with pytest.raises(SystemExit) as ended:
        main(["export", *map(str, words)])
    assert (ended.value.code or 0) == code
    return capsys.readouterr()


def test_the_table_has_a_line_a_model_and_the_files_are_named(capsys, digits_run, tmp_path):
    said = run(capsys, digits_run.folder, "--out", "models", "--images", 100, "--limit", 0.2).out
    assert "Torch and what was exported, on 100 test images of digits" in said
    lines = [line.split() for line in said.splitlines()]
    figures = {line[0]: line for line in lines if line and line[0] in ("torch", "fp32", "int8")}
    found = {one["model"]: one for one in json.loads((tmp_path / "models" / "parity.json").read_text())["models"]}
    assert list(figures) == ["torch", "fp32", "int8"]
    for name, line in figures.items():
        assert line[1] == f"{100 * found[name]['recall_at_1']:.2f}"
        assert line[-1] == "5"
    assert figures["fp32"][3] == "+0.00"
    for name in ("model.onnx", "model-int8.onnx", "parity.json"):
        assert f"models/{name}" in said
        assert (tmp_path / "models" / name).is_file()


def test_a_refusal_shows_the_table_and_ends_with_1(capsys, digits_run, tmp_path):
    said = run(capsys, digits_run.folder, "--out", "models", "--images", 20, "--limit", -1, code=1)
    assert "int8" in said.out
    assert said.err.startswith("Stopped: int8 has Recall@1")
    assert said.err.count("\n") == 1
    assert "--accept-loss" in said.err
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == [
        "digests.json",
        "model.onnx",
        "parity.json",
    ]
    words = (digits_run.folder, "--out", "models", "--images", 20, "--limit", -1, "--accept-loss")
    assert "model-int8.onnx" in run(capsys, *words).out


@pytest.mark.parametrize(("words", "option"), [(["--out"], "--out"), (["--gallery", ".", "--bundle"], "--bundle")])
def test_a_place_that_cannot_be_written_to_is_refused_before_the_work(
    capsys, digits_run, tmp_path, monkeypatch, words, option
):
    monkeypatch.setattr("shadowmetric.app.training.runs.trained.load_embedder", lambda run: 1 / 0)
    (tmp_path / "file").touch()
    said = run(capsys, digits_run.folder, *words, "file/new/place", code=2).err
    assert said.startswith("the folder file/new")
    assert "cannot be written to (Not a directory); name another" in said
    assert option in said
    assert said.count("\n") == 1


def test_a_file_in_place_of_a_run_is_named(capsys, tmp_path):
    (tmp_path / "model.onnx").touch()
    said = run(capsys, "model.onnx", code=2).err
    assert said == "model.onnx is a file; give the folder of a run, which `shadowmetric train` wrote.\n"


def test_json_is_all_that_is_printed(capsys, digits_run):
    said = run(capsys, digits_run.folder, "--out", "models", "--images", 20, "--no-int8", "--json")
    found = json.loads(said.out)
    assert [one["model"] for one in found["models"]] == ["torch", "fp32"]
    assert (found["bundle"], said.err) == (None, "")


def test_a_bundle_is_written_with_the_images(capsys, digits_run, exported, images, monkeypatch, tmp_path):
    monkeypatch.setattr(exporting, "export", lambda *_, **__: exported)
    said = run(capsys, digits_run.folder, "--bundle", "small", "--gallery", images).out
    assert "The bundle is small" in said
    assert "the int8 model and an index of 40 images" in said
    assert (tmp_path / "small" / "device" / "__main__.py").is_file()
    words = (digits_run.folder, "--bundle", "small", "--gallery", images, "--json")
    assert json.loads(run(capsys, *words).out)["bundle"]["images"] == 40


def test_a_refused_8_bit_model_still_gives_a_bundle_with_the_float_one(
    capsys, digits_run, exported, images, monkeypatch
):
    refused = replace(exported, files={"fp32": exported.files["fp32"]}, refusal="too bad.")
    monkeypatch.setattr(exporting, "export", lambda *_, **__: refused)
    said = run(capsys, digits_run.folder, "--bundle", "small", "--gallery", images, code=1)
    assert "the fp32 model and an index of 40 images" in said.out
    assert said.err == "Stopped: too bad.\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere"], "nowhere is not there; name the folder of a run"),
        (["untrained"], "untrained has no best.safetensors yet; train on with"),
        (["a", "--bundle", "b"], "--bundle DIR and --gallery FOLDER belong together"),
        (["a", "--gallery", "b"], "--bundle DIR and --gallery FOLDER belong together"),
        (["a", "--bundle", "untrained", "--gallery", "b"], "untrained is there and holds other things than a bundle"),
        (["a", "--limit", "5"], "--limit is 5.0; it is a share"),
        (["a", "--images", "0"], "--images is 0; give 2 or more"),
        (["a", "--images", "many"], "many"),
        ([], "run"),
    ],
)
def test_mistakes_are_one_sentence(capsys, digits_run, tmp_path, words, sentence):
    (tmp_path / "untrained").mkdir()
    shutil.copy(digits_run.settings_file, tmp_path / "untrained")
    said = run(capsys, *words, code=2).err
    assert sentence.lower() in said.lower()
    assert said.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["untrained"]


def test_images_that_are_not_there_are_refused_before_the_work(capsys, digits_run, monkeypatch):
    monkeypatch.setattr(exporting, "export", lambda *_, **__: pytest.fail("worked"))
    said = run(capsys, digits_run.folder, "--bundle", "small", "--gallery", "nowhere", code=2).err
    assert "nowhere is not there; give a folder of images" in said


def test_a_missing_extra_is_named(capsys, monkeypatch):
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else name)
    said = run(capsys, "anything", code=2).err
    assert said == "onnxruntime is not installed; run `pip install 'shadowmetric[export]'`.\n"


def test_help_names_every_choice(capsys):
    said = run(capsys, "--help").out
    for word in ("RUN", "--out", "--no-int8", "--limit", "--accept-loss", "--images", "--bundle", "--gallery"):
        assert word in said
    assert "shadowmetric export runs/glyphs-shadow-0 --bundle device --gallery photos" in said
    assert "0.01" in said
    assert bundling.PROGRAM in said
