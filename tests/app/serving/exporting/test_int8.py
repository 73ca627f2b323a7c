"""The 8-bit model: 8-bit numbers inside, close to the float model, and never taken for it."""

import numpy as np
import onnx
import pytest

from shadowmetric.app.serving.exporting.int8 import float_nodes, write_int8
from shadowmetric.app.serving.model import fingerprint
from shadowmetric.runtime.model import OnnxModel

pytest_plugins = ["exported_fixtures"]


def batches(seed=0):
    random = np.random.default_rng(seed)
    return iter([random.integers(0, 256, (8, 1, 8, 8)).astype(np.uint8) for _ in range(2)])


@pytest.fixture(scope="module")
def graph(exported):
    return onnx.load(exported.files["int8"]).graph


def test_weights_have_8_bits_and_a_scale_a_channel(graph, exported):
    kinds = [one.data_type for one in graph.initializer if len(one.dims) == 4]
    assert kinds.count(onnx.TensorProto.INT8) == len(kinds) - 1  # the first convolution stays in float
    sizes = {one.name: one.dims for one in graph.initializer}
    scaled = [
        node for node in graph.node if node.op_type == "DequantizeLinear" and len(sizes.get(node.input[0], ())) == 4
    ]
    assert scaled
    assert all(list(sizes[node.input[1]]) == [sizes[node.input[0]][0]] for node in scaled)
    assert exported.files["int8"].stat().st_size < exported.files["fp32"].stat().st_size / 2


def test_the_first_convolution_and_the_head_stay_in_float(exported):
    nodes = onnx.load(exported.files["fp32"]).graph.node
    first = next(node for node in nodes if node.op_type == "Conv")
    last = [node for node in nodes if node.op_type in ("Gemm", "MatMul")][-1]
    assert float_nodes(onnx.load(exported.files["fp32"])) == [first.name, last.name]
    after = {node.name: node for node in onnx.load(exported.files["int8"]).graph.node}
    assert after[first.name].input[1] == first.input[1]
    assert after[last.name].input[1] == last.input[1]


def test_its_rows_are_close_and_have_length_1(exported):
    real, small = (OnnxModel(exported.files[name]) for name in ("fp32", "int8"))
    [pixels, *_] = batches(3)
    ours, theirs = small.embed(pixels), real.embed(pixels)
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)
    assert (ours * theirs).sum(1).min() > 0.9
    assert not np.array_equal(ours, theirs)


@pytest.mark.parametrize("batch", [1, 5, 33])
def test_any_batch_will_do(exported, batch):
    assert OnnxModel(exported.files["int8"]).embed(np.zeros((batch, 1, 8, 8), np.uint8)).shape == (batch, 16)


def test_its_metadata_are_those_of_the_float_model_but_for_the_fingerprint(digits_run, exported):
    real, small = (OnnxModel(exported.files[name]) for name in ("fp32", "int8"))
    of_run, _, digits = small.about.fingerprint.partition("-int8-")
    assert of_run == real.about.fingerprint == fingerprint(digits_run.best_file)
    assert len(digits) == 16
    assert set(digits) <= set("0123456789abcdef")
    ours, theirs = (model.session.get_modelmeta().custom_metadata_map for model in (small, real))
    assert ours["preprocessing"] == theirs["preprocessing"]
    assert (small.about.shape, small.about.trained) == (real.about.shape, real.about.trained)


def test_the_same_images_give_the_same_file_and_others_another(exported, tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write_int8(exported.files["fp32"], tmp_path / name, batches(seed))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert OnnxModel(tmp_path / "a").about.fingerprint != OnnxModel(tmp_path / "c").about.fingerprint
