"""Which model made an index: found where it was, moved with its index, named by --model, or refused."""

import shutil
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from changed_runs import rewrite
from image_folders import DIM, FakeModel, indexed, write_folder, write_run

from shadowmetric.app.serving.model import Model, RunModel, fingerprint, model_of, open_model, places_of, relative
from shadowmetric.app.training.runs.run import Run
from shadowmetric.errors import Mistake
from shadowmetric.runtime.entries import same_rows
from shadowmetric.runtime.index_file import read_index
from shadowmetric.runtime.model import OnnxModel, seal_model

pytest_plugins = ["exported_fixtures"]


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "work" / "runs" / "birds")


@pytest.fixture
def index(tmp_path, run):
    out = tmp_path / "work" / "x.shadowmx"
    indexed(RunModel(run), write_folder(tmp_path / "photos"), out)
    return out


def found(index, instead=None):
    return model_of(read_index(index)[0], index, instead)


def refusal(*given):
    with pytest.raises(Mistake) as refused:
        found(*given)
    return str(refused.value)


def test_weights_that_are_not_those_of_the_fingerprint_are_refused(run, tmp_path):
    model = RunModel(run)
    other = Run(write_run(tmp_path / "other", seed=1))
    rewrite(Run(run), Run(run).best_file, other.best_file.read_bytes())  # a better epoch
    with pytest.raises(Mistake, match="was trained on meanwhile, and has other weights; start again"):
        model.embed(np.zeros((1, 1, 8, 8), np.uint8))


@pytest.mark.parametrize("line", ["channels: 2", "size: 0"])
def test_settings_that_make_no_sense_are_refused(run, line):
    settings = Run(run).settings_file
    name = line.partition(":")[0]
    lines = [line if one.startswith(f"{name}:") else one for one in settings.read_text().splitlines()]
    rewrite(Run(run), settings, "\n".join(lines))
    with pytest.raises(Mistake, match=r"settings\.yaml: --(channels|size) is"):
        RunModel(run)


def test_scores_that_are_no_scores_are_refused(run):
    rewrite(Run(run), run / "scores.json", "3")
    with pytest.raises(Mistake, match=r"scores.json cannot be read \(no scores\); remove it"):
        RunModel(run)


def test_a_run_is_a_model(run):
    model = RunModel(run)
    assert isinstance(model, Model)
    assert isinstance(FakeModel(), Model)
    assert (model.about.dim, model.about.root, model.about.model) == (DIM, "", (str(run),))
    assert model.about.trained["data"] == "digits"
    assert model.about.trained["run"] == "birds"
    squares = np.random.default_rng(0).integers(0, 256, (5, 1, 8, 8), np.uint8)
    rows = model.embed(squares)
    assert rows.shape == (5, DIM)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert np.allclose(model.embed(squares[2:3]), rows[2:3], atol=1e-6)


def test_read_only_pixels_are_embedded_without_a_warning(run):
    squares = np.zeros((1, 1, 8, 8), np.uint8)
    squares.flags.writeable = False
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # else only the first of a process is one
    try:
        assert RunModel(run).embed(squares).shape == (1, DIM)
    finally:
        torch.set_warn_always(before)


def test_a_fingerprint_is_of_the_weights(run, tmp_path):
    assert fingerprint(Run(run).best_file) == RunModel(run).about.fingerprint
    assert RunModel(write_run(tmp_path / "same")).about.fingerprint == RunModel(run).about.fingerprint
    assert RunModel(write_run(tmp_path / "other", 1)).about.fingerprint != RunModel(run).about.fingerprint


def test_the_scores_of_a_run_are_told(run):
    Run(run).write_scores({"recall_at_1": 0.6126})
    assert RunModel(run).about.trained["Recall@1 on its test images"] == "61.3 %"


def test_the_model_is_found_where_it_was(run, index):
    assert isinstance(found(index), RunModel)
    assert found(index).about.fingerprint == fingerprint(Run(run).best_file)


def test_an_index_and_its_run_move_together(index, tmp_path):
    (tmp_path / "work").rename(tmp_path / "elsewhere")
    moved = tmp_path / "elsewhere" / index.name
    assert found(moved).about.model == (str(tmp_path / "elsewhere" / "runs" / "birds"),)


def test_an_index_that_moves_alone_finds_its_run(run, index, tmp_path):
    (tmp_path / "far" / "away").mkdir(parents=True)
    moved = shutil.move(index, tmp_path / "far" / "away" / "y.shadowmx")
    assert found(moved).about.model == (str(run),)


def test_an_index_that_moves_beside_another_run_finds_its_own(run, index, tmp_path):
    write_run(tmp_path / "far" / "runs" / "birds", 1)
    moved = shutil.move(index, tmp_path / "far" / "y.shadowmx")
    assert found(moved).about.model == (str(run),)


def test_an_index_that_moves_beside_something_else_finds_its_own(run, index, tmp_path):
    (tmp_path / "far" / "runs" / "birds").mkdir(parents=True)
    moved = shutil.move(index, tmp_path / "far" / "y.shadowmx")
    assert found(moved).about.model == (str(run),)


def test_a_run_that_moves_is_named(run, index, tmp_path):
    moved = run.rename(tmp_path / "moved")
    assert refusal(index) == f"the model that made the index is not at {run}; name its run by --model."
    assert found(index, moved).about.model == (str(moved),)
    assert "is not at" in refusal(index, tmp_path / "nowhere")


def test_an_index_that_names_no_model_is_refused(index):
    with pytest.raises(Mistake, match="name its run by --model"):
        model_of(replace(read_index(index)[0], model=()), index)


def test_other_weights_are_refused(run, index, tmp_path):
    other = write_run(tmp_path / "other", 1)
    assert f"{other} has other weights than those that made the index" in refusal(index, other)
    rewrite(Run(run), Run(run).best_file, Run(other).best_file.read_bytes())
    assert f"{run} has other weights than those that made the index" in refusal(index)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: None, "is not there; give the folder of a run"),
        (lambda path: path.mkdir(), "holds no run: there is no settings.yaml"),
        (lambda path: path.write_text("x"), "x is a file; give the folder of a run"),
    ],
)
def test_what_is_no_run_is_refused(tmp_path, make, sentence):
    make(tmp_path / "x")
    with pytest.raises(Mistake, match=sentence):
        open_model(tmp_path / "x")


def test_a_run_without_weights_is_refused(run):
    Run(run).best_file.unlink()
    with pytest.raises(Mistake, match=r"best\.safetensors cannot be read .*; train the run first"):
        open_model(run)


def test_weights_that_do_not_fit_are_refused_in_one_sentence(run):
    rewrite(Run(run), Run(run).best_file, b"damaged")
    with pytest.raises(Mistake, match="does not fit the settings beside it"):
        open_model(run).embed(np.zeros((1, 1, 8, 8), np.uint8))


def test_places_are_seen_from_the_index_and_absolutely(tmp_path):
    about = FakeModel(place=tmp_path / "a" / "run").about
    assert places_of(about, tmp_path / "b" / "c" / "x") == ("../../a/run", str(tmp_path / "a" / "run"))
    assert relative(str(tmp_path / "run"), tmp_path / "x") == "run"


def test_a_damaged_export_does_not_cost_the_run(run):
    exported = run / "export" / "model.onnx"
    exported.parent.mkdir()
    exported.write_bytes(b"cut short")
    assert isinstance(open_model(run), RunModel)


@pytest.fixture
def forged(digits_run, exported, tmp_path):
    """Return a copy of an exported run, and one of its model with other weights, sealed anew: only who kept a digest
    of the file itself can tell."""
    folder = tmp_path / "copied"
    shutil.copytree(digits_run.folder, folder)
    model = onnx.load(exported.files["fp32"])
    largest = max(model.graph.initializer, key=lambda one: len(one.raw_data))
    largest.raw_data = onnx.numpy_helper.to_array(largest)[::-1].tobytes()
    next(one for one in model.metadata_props if one.key == "sha256").value = "0" * 64
    (tmp_path / "forged.onnx").write_bytes(seal_model(model.SerializeToString()))
    return folder, tmp_path / "forged.onnx"


def test_an_exported_model_stands_for_its_run_only_if_the_export_wrote_it(forged):
    folder, forged_file = forged
    assert isinstance(open_model(folder), OnnxModel)
    shutil.copy(forged_file, folder / "export" / "model.onnx")
    OnnxModel(forged_file)  # whole in itself
    assert isinstance(open_model(folder), RunModel)
    (folder / "export" / "digests.json").unlink()
    assert isinstance(open_model(folder), RunModel)


def test_an_index_knows_the_file_that_made_it(forged, exported):
    _, forged_file = forged
    whole, other = (OnnxModel(file).about for file in (exported.files["fp32"], forged_file))
    assert whole.fingerprint == other.fingerprint
    assert same_rows(whole, whole)
    assert not same_rows(whole, other)


def test_a_run_s_weights_that_were_exchanged_are_refused(run, tmp_path):
    other = Run(write_run(tmp_path / "other", 1))
    shutil.copy(other.best_file, Run(run).best_file)
    with pytest.raises(Mistake, match=r"best\.safetensors is not as it was written"):
        open_model(run)
