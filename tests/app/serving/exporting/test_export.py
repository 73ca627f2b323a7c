"""What an export leaves in its folder, when the 8-bit file is refused, and the mistakes people make."""

import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from exported_runs import IMAGES

from shadowmetric.app.data.catalogue import open_dataset
from shadowmetric.app.serving.exporting import export as exporting
from shadowmetric.app.serving.exporting import onnx_file, parity
from shadowmetric.app.serving.exporting.export import export, place_exports, refusal_of, training_squares
from shadowmetric.app.training.runs.run import Run
from shadowmetric.errors import Mistake, Stopped

pytest_plugins = ["exported_fixtures"]


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(parity, "resident_bytes", lambda place, of_run: 1)
    monkeypatch.setattr(parity, "REPEATS", 1)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def figures(exported, **lost):
    """Return the figures with other values for int8."""
    return [replace(one, **lost) if one.model == "int8" else one for one in exported.measured]


def test_the_files_are_in_the_runs_folder_and_parity_json_has_the_figures(digits_run, exported):
    assert exported.folder == digits_run.folder / "export"
    assert names(exported.folder) == ["digests.json", "model-int8.onnx", "model.onnx", "parity.json"]
    found = json.loads((exported.folder / "parity.json").read_text())
    assert found == json.loads(json.dumps(exported.plain()))
    assert (found["images"], found["dataset"], found["refusal"]) == (IMAGES, "digits", None)
    assert (found["test_images"], found["run_recall_at_1"]) == (602, digits_run.scores()["recall_at_1"])
    assert found["files"] == {"fp32": "model.onnx", "int8": "model-int8.onnx"}
    assert {"commit", "machine", "torch", "python", "version"} <= set(found["origin"])
    assert [one["model"] for one in found["models"]] == ["torch", "fp32", "int8"]
    for one in found["models"][1:]:
        assert one["sha256"] == parity.sha256_of(exported.folder / found["files"][one["model"]])
    assert found["models"][0]["bytes"] == digits_run.best_file.stat().st_size


def test_an_8_bit_model_below_the_limit_is_not_written_and_none_is_left_from_before(
    quick, digits_run, exported, tmp_path
):
    shutil.copy(exported.files["int8"], tmp_path / "model-int8.onnx")
    refused = export(digits_run, tmp_path, limit=-1.0, images=20)
    assert names(tmp_path) == ["digests.json", "model.onnx", "parity.json"]
    assert list(refused.files) == ["fp32"]
    assert refused.refusal is not None
    found = json.loads((tmp_path / "parity.json").read_text())
    assert found["refusal"] == refused.refusal
    assert [one["model"] for one in found["models"]] == ["torch", "fp32", "int8"]


@pytest.mark.parametrize(("images", "wanted"), [(None, 602), (30, 30)])
def test_all_test_images_are_compared_unless_fewer_are_asked_for(digits_run, tmp_path, monkeypatch, images, wanted):
    def compare(run, weights, files, split, gallery, **more):
        assert (len(split), gallery) == (wanted, None)
        raise Stopped("seen.")

    monkeypatch.setattr(onnx_file, "write_onnx", lambda *_: None)
    monkeypatch.setattr(exporting, "measure_parity", compare)
    with pytest.raises(Stopped, match="seen"):
        export(digits_run, tmp_path, int8=False, images=images)


def test_a_loss_that_is_accepted_is_written(exported, tmp_path):
    lossy = figures(exported, recall_at_1=0.1)
    assert place_exports(exported.files, lossy, tmp_path / "a", (5, 9, 0.5), "digits", 0.01, False).refusal is not None
    accepted = place_exports(exported.files, lossy, tmp_path / "b", (5, 9, 0.5), "digits", 0.01, True)
    assert accepted.refusal is None
    assert names(tmp_path / "a") == ["digests.json", "model.onnx", "parity.json"]
    assert names(tmp_path / "b") == ["digests.json", "model-int8.onnx", "model.onnx", "parity.json"]


def test_the_refusal_has_both_figures_the_limit_and_the_remedy(exported):
    by_name = {one.model: one for one in figures(exported, recall_at_1=0.5)}
    by_name["torch"] = replace(by_name["torch"], recall_at_1=0.625)
    said = refusal_of(by_name, 0.01)
    for part in ("50.00 %", "62.50 %", "12.50 points", "limit is 1,", "--accept-loss", "--limit"):
        assert part in said
    assert refusal_of(by_name, 0.125) is None
    assert refusal_of({**by_name, "int8": replace(by_name["int8"], recall_at_1=0.7)}, 0.0) is None


def test_a_float_file_that_gives_other_rows_stops_the_export(exported, tmp_path):
    for apart in (0.001, float("nan")):
        wrong = [replace(one, largest_cosine_error=apart) for one in exported.measured]
        with pytest.raises(Stopped, match="nothing was written"):
            place_exports(exported.files, wrong, tmp_path / "new", (5, 5, None), "digits", 0.01, False)
        assert not (tmp_path / "new").exists()


def test_without_int8_one_model_is_made_and_another_is_left_alone(quick, digits_run, tmp_path):
    (tmp_path / "model-int8.onnx").write_bytes(b"old")
    found = export(digits_run, tmp_path, int8=False, images=20)
    assert names(tmp_path) == ["digests.json", "model-int8.onnx", "model.onnx", "parity.json"]
    assert (tmp_path / "model-int8.onnx").read_bytes() == b"old"
    assert [one.model for one in found.measured] == ["torch", "fp32"]


def test_ranges_come_from_training_images_alone(digits_run):
    dataset = open_dataset("digits")
    told = []
    found = np.concatenate(list(training_squares(digits_run, dataset, 50, lambda *stage: told.append(stage))))
    assert (len(found), told[-1]) == (50, ("taking ranges", 1.0))
    train = {dataset.train.images.read(number).numpy().tobytes() for number in range(len(dataset.train))}
    assert {one.tobytes() for one in found} <= train


def test_a_write_that_fails_leaves_the_old_files(exported, tmp_path, monkeypatch):
    for name in ("model.onnx", "model-int8.onnx", "parity.json"):
        (tmp_path / name).write_text("old")

    def no_room(*_):
        raise OSError("no room")

    monkeypatch.setattr(os, "replace", no_room)
    with pytest.raises(OSError, match="no room"):
        place_exports(exported.files, exported.measured, tmp_path, (5, 5, None), "digits", 0.2, False)
    assert {(tmp_path / name).read_text() for name in names(tmp_path)} == {"old"}
    assert len(names(tmp_path)) == 3


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"images": 1}, "--images is 1; give 2 or more"),
        ({"calibration": 0}, "calibration is 0; give 1 or more"),
        ({"limit": 2.0}, "--limit is 2.0; it is a share"),
        ({"limit": float("nan")}, "--limit is nan"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(digits_run, more, sentence):
    with pytest.raises(Mistake, match=sentence):
        export(digits_run, **more)


def test_what_is_no_trained_run_is_refused(digits_run, tmp_path):
    with pytest.raises(Mistake, match="holds no run"):
        export(Run(tmp_path))
    shutil.copy(digits_run.settings_file, tmp_path)
    with pytest.raises(Mistake, match=r"has no best\.safetensors yet; train on with"):
        export(Run(tmp_path))
    assert names(tmp_path) == ["settings.yaml"]


def test_a_file_where_the_folder_should_be_is_refused(digits_run, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(Mistake, match="is a file; name a folder by --out"):
        export(digits_run, tmp_path / "file")


def test_the_limit_that_is_not_given_is_one_point():
    assert exporting.LIMIT == 0.01
