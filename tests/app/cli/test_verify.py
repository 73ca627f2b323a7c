"""`shadowmetric verify`: a decision in words or JSON, measured once, and the mistakes people make."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from image_folders import ran, write_run
from PIL import Image

from shadowmetric.app.data.catalogue import open_dataset
from shadowmetric.app.serving.model import RunModel
from shadowmetric.app.serving.verification import calibration
from shadowmetric.app.serving.verification.calibration import calibrate
from shadowmetric.app.training.runs.run import Run


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run that is calibrated, and images of digits."""
    folder = tmp_path_factory.mktemp("verify")
    write_run(folder / "run")
    calibrate(Run(folder / "run"), RunModel(folder / "run"))
    images = open_dataset("digits").test.images
    for number in range(2):
        Image.fromarray(np.asarray(images.read(number))[0]).save(folder / f"{number}.png")
    return folder


@pytest.fixture(autouse=True)
def in_a_folder(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")


def run(capsys, *words, code=0):
    return ran(capsys, "verify", *words, code=code)


def test_help_says_what_there_is(capsys):
    said = run(capsys, "--help").out
    assert "Usage: shadowmetric verify RUN IMAGE IMAGE|FOLDER [OPTIONS]" in said
    for option in ("--prior", "--false-accept-rate", "--explain", "--data-root", "--json"):
        assert option in said


def test_an_image_is_the_same_as_itself(capsys):
    verdict, words = run(capsys, "run", "0.png", "0.png").out.splitlines()
    assert verdict == "the same"
    assert words.startswith("Pairs as alike as these show the same in ")
    assert int(words.split()[9]) > 50
    assert words.endswith("of 100 cases, if 50 in 100 pairs that you compare do (--prior 0.5).")
    for term in ("cosine", "threshold", "class", "Measured", "%"):  # that is for --explain
        assert term not in words


def test_the_explanation_is_asked_for(capsys):
    plain, said = (run(capsys, "run", "0.png", "0.png", *more).out for more in ((), ("--explain",)))
    assert said.startswith(plain)
    assert "The cosine is 1.000; from 0." in said
    assert "602 test images of 10 classes of digits." in said


def test_a_prior_moves_decision_and_probability_together(capsys):
    found = [
        json.loads(run(capsys, "run", "0.png", "1.png", "--json", "--prior", prior).out)
        for prior in ("0.001", "0.1", "0.5", "0.9", "0.999")
    ]
    probabilities = [one["probability"] for one in found]
    assert probabilities == sorted(probabilities)
    assert probabilities[0] < 0.5 < probabilities[-1]
    assert [one["same"] for one in found] == [one["probability"] >= 0.5 for one in found]
    for one, prior in zip(found, ("0.001", "0.1", "0.5", "0.9", "0.999"), strict=True):
        said = run(capsys, "run", "0.png", "1.png", "--prior", prior).out
        assert said.startswith("the same" if one["same"] else "different")


def test_a_run_that_may_be_read_only_is_answered_for(capsys, monkeypatch):
    before = run(capsys, "run", "0.png", "1.png", "--json").out
    Path("run", "calibration.json").unlink()

    def denied(*_):
        raise PermissionError(13, "Permission denied", "run/.calibration.json.0123")

    monkeypatch.setattr(calibration, "write_json", denied)
    said = run(capsys, "run", "0.png", "1.png", "--json")
    assert said.out == before
    assert said.err == (
        "run/calibration.json cannot be written (Permission denied), so the next call measures again.\n"
    )


@pytest.mark.parametrize("file", ["0.png", "run/model.onnx"])
def test_a_file_in_place_of_a_run_is_named(capsys, file):
    Path("run", "model.onnx").touch()
    said = run(capsys, file, "0.png", "1.png", code=2).err
    assert said == (
        f"{file} is a file; give the folder of a run, which `shadowmetric train` wrote; the threshold is measured on "
        "its test images.\n"
    )


def test_words_and_json_say_the_same(capsys):
    found = json.loads(run(capsys, "run", "0.png", "1.png", "--json", "--false-accept-rate", "0.05").out)
    assert found.keys() == {
        "same",
        "probability",
        "prior",
        "cosine",
        "threshold",
        "false_accept_rate",
        "true_accept_rate",
        "measured_on",
    }
    assert found["same"] is (found["cosine"] >= found["threshold"])
    assert found["false_accept_rate"] <= 0.05
    said = run(capsys, "run", "0.png", "1.png", "--false-accept-rate", "0.05", "--explain").out
    assert said.startswith("the same" if found["same"] else "different")
    assert f"The cosine is {found['cosine']:.3f}; from {found['threshold']:.3f} on" in said
    assert f"show the same in {math.floor(100 * found['probability'])} of 100 cases" in said


def test_the_threshold_is_measured_once(capsys, monkeypatch):
    def never(*_):
        raise AssertionError("measured again")

    monkeypatch.setattr(calibration, "measure", never)
    run(capsys, "run", "0.png", "1.png")


def test_a_low_rate_asks_for_more(capsys):
    thresholds = []
    for rate in ("1", "0.1", "0.001"):
        thresholds.append(
            json.loads(run(capsys, "run", "0.png", "1.png", "--json", "--false-accept-rate", rate).out)["threshold"]
        )
    assert thresholds == sorted(thresholds)
    assert thresholds[0] < thresholds[2]
    assert json.loads(run(capsys, "run", "0.png", "1.png", "--json", "--false-accept-rate", "1").out)["same"] is True


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "give a run and two images, or an image and a folder: `shadowmetric verify RUN IMAGE IMAGE`."),
        (
            ["run", "0.png"],
            "give a run and two images, or an image and a folder: `shadowmetric verify RUN IMAGE IMAGE`.",
        ),
        (["none", "0.png", "1.png"], "none is not there; give the folder of a run"),
        (["run", "0.png", "none.png"], "none.png is not there."),
        (["run", "run", "0.png"], "run is a folder; name an image."),
        (["run", "0.png", "1.png", "--false-accept-rate", "0"], "--false-accept-rate is 0; it is a share"),
        (["run", "0.png", "1.png", "--false-accept-rate", "1.5"], "--false-accept-rate is 1.5; it is a share"),
        (["run", "0.png", "1.png", "--false-accept-rate", "nan"], "--false-accept-rate is nan; it is a share"),
        (["run", "0.png", "1.png", "--false-accept-rate", "1e-9"], "the rate of false accepts is 1e-09; "),
        (["run", "0.png", "1.png", "--false-accept-rate", "low"], "low"),
        (["run", "0.png", "1.png", "--prior", "0"], "--prior is 0; it is the share of your pairs"),
        (["run", "0.png", "1.png", "--prior", "5"], "--prior is 5; it is the share of your pairs"),
        (["run", "0.png", "1.png", "--prior", "nan"], "--prior is nan; it is the share of your pairs"),
    ],
)
def test_mistakes_are_one_sentence(capsys, words, sentence):
    said = run(capsys, *words, code=2)
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_a_damaged_calibration_is_one_sentence(capsys, tmp_path):
    (tmp_path / "here" / "run" / "calibration.json").write_text('{"cosines": [')
    said = run(capsys, "run", "0.png", "1.png", code=2).err
    assert "calibration.json cannot be read" in said
    assert said.count("\n") == 1


def test_a_folder_votes_on_the_class_or_says_that_it_is_of_none(capsys):
    for number, name in ((0, "one"), (1, "two")):
        Path("known", name).mkdir(parents=True)
        shutil.copy(f"{number}.png", f"known/{name}/a.png")
    said = json.loads(run(capsys, "run", "0.png", "known", "--json").out)
    assert (said["images"], said["nearest"]["path"], said["in_catalog"]) == (2, "one/a.png", True)
    assert [vote["label"] for vote in said["classes"]] == ["one", "two"]
    verdict, words = run(capsys, "run", "0.png", "known/one").out.splitlines()
    assert verdict == "one: 100 % of the vote of the nearest, 1 image"
    assert "of the images of absent classes reach and" in words
    black = np.zeros((8, 8), np.uint8)
    Image.fromarray(black).save("black.png")
    least = json.loads(run(capsys, "run", "black.png", "known", "--json").out)
    assert least["in_catalog"] == (least["similarity"] >= least["threshold"])
    Path("known/one/b.png").write_bytes(b"no image")
    assert "b.png" in run(capsys, "run", "0.png", "known/one").err
    assert "--prior is of two images" in run(capsys, "run", "0.png", "known", "--prior", "0.1", code=2).err
    assert "beside a folder" in run(capsys, "run", "0.png", "1.png", "--unknown-accept-rate", "0.1", code=2).err
    Path("empty").mkdir()
    assert "empty has no images" in run(capsys, "run", "0.png", "empty", code=2).err
