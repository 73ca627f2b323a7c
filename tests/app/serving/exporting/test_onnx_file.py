"""The exported file: torch's rows for any batch, its own description, and nothing of this machine."""

import json

import numpy as np
import onnx
import pytest
import torch
from exported_runs import quick_run

from shadowmetric.app.serving.exporting import onnx_file
from shadowmetric.app.serving.exporting.onnx_file import portable, preprocessing, silence, write_onnx
from shadowmetric.app.serving.model import RunModel, fingerprint
from shadowmetric.app.training.runs.trained import load_embedder
from shadowmetric.errors import Mistake
from shadowmetric.runtime.entries import About
from shadowmetric.runtime.images import Shape
from shadowmetric.runtime.model import METADATA, OnnxModel

pytest_plugins = ["exported_fixtures"]


def squares(about, count, seed=0):
    shape = (count, about.shape.channels, about.shape.size, about.shape.size)
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


@pytest.mark.parametrize("batch", [1, 2, 5, 33])
def test_rows_are_torchs_for_any_batch(digits_run, exported, batch):
    model, run = OnnxModel(exported.files["fp32"]), RunModel(digits_run.folder)
    pixels = squares(model.about, batch)
    rows = model.embed(pixels)
    assert rows.shape == (batch, 16)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, run.embed(pixels), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_pixels_go_in_and_embeddings_come_out_of_one_file(exported):
    file = exported.files["fp32"]
    graph = onnx.load(file, load_external_data=False).graph
    [taken], [given] = graph.input, graph.output
    assert (taken.name, taken.type.tensor_type.elem_type) == ("pixels", onnx.TensorProto.UINT8)
    assert (given.name, given.type.tensor_type.elem_type) == ("embeddings", onnx.TensorProto.FLOAT)
    assert [dim.dim_param or dim.dim_value for dim in taken.type.tensor_type.shape.dim] == ["batch", 1, 8, 8]
    assert not any(one.external_data for one in graph.initializer)
    kinds = [node.op_type for node in graph.node]
    assert kinds.count("BatchNormalization") == kinds.count("MaxPool")  # elsewhere it is part of a convolution


def test_the_fingerprint_is_that_of_the_weights_and_the_metadata_says_what_it_takes(digits_run, exported):
    model = OnnxModel(exported.files["fp32"])
    assert model.about.fingerprint == fingerprint(digits_run.best_file)
    assert model.about.shape == Shape(8, 8, 1)
    assert (model.about.root, model.about.model) == ("", ())
    words = model.session.get_modelmeta().custom_metadata_map
    assert "gray, short side to 8 pixels (bilinear, antialiased), middle square of 8" in words["preprocessing"]
    assert json.loads(words[METADATA])["trained"]["loss"] == words["trained: loss"] == digits_run.settings().loss


def test_no_folder_of_this_machine_is_in_the_file(digits_run, exported):
    for file in exported.files.values():
        stored = file.read_bytes()
        for told in (str(digits_run.folder.parent), "site-packages", ".py", "/src/"):
            assert told.encode() not in stored


def test_what_is_told_of_the_data_keeps_no_folder():
    about = About(4, "f", Shape(8, 8, 3), ("/a/run",), "/a/images", {"data": "folder:/home/me/birds", "loss": "x"})
    told = portable(about)
    assert (told.model, told.root, told.trained) == ((), "", {"data": "folder:birds", "loss": "x"})
    assert portable(About(4, "f", about.shape, (), "", {"data": "cub200"})).trained == {"data": "cub200"}
    assert preprocessing(told).startswith("upright, RGB, short side to 8")


def test_rows_have_length_1_even_if_the_runs_own_do_not(tmp_path):
    run = quick_run(tmp_path / "long rows", unit_rows=False, epochs=1)
    embedder, model = load_embedder(run), RunModel(run.folder)
    write_onnx(embedder, model.about, tmp_path / "model.onnx")
    pixels = squares(model.about, 3)
    with torch.no_grad():
        assert not np.allclose(np.linalg.norm(embedder(torch.from_numpy(pixels)), axis=1), 1, atol=0.01)
    rows = OnnxModel(tmp_path / "model.onnx").embed(pixels)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(rows, model.embed(pixels), atol=1e-5)


def test_a_model_beyond_one_file_is_refused_and_nothing_is_left(tmp_path, monkeypatch, exported):
    monkeypatch.setattr(onnx_file, "MOST_BYTES", 1000)
    with pytest.raises(Mistake, match=r"one \.onnx file holds at most 1,000"):
        onnx_file.save(onnx.load(exported.files["fp32"]), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_the_exporter_is_silent_and_what_was_loud_before_is_loud_again(capfd):
    import logging
    import warnings

    with silence():
        print("noise")
        warnings.warn("noise", stacklevel=1)
        logging.getLogger("torch.onnx").warning("noise")
    logging.getLogger("anything").warning("heard")
    said = capfd.readouterr()
    assert "noise" not in said.out + said.err
    assert logging.root.manager.disable == 0
