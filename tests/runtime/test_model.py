"""Models that are not ours, or not whole, are refused in one sentence."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from shadowmetric.runtime.errors import Mistake
from shadowmetric.runtime.model import DIGEST, DIGITS, METADATA, OnnxModel, seal_model

pytest_plugins = ["exported_fixtures"]


def foreign(path, **metadata):
    value = helper.make_tensor_value_info
    node = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph([node], "g", [value("x", TensorProto.FLOAT, [1])], [value("y", TensorProto.FLOAT, [1])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    for name, text in metadata.items():
        model.metadata_props.add(key=name, value=text)
    onnx.save(model, path)
    return path


def one_sentence(path):
    with pytest.raises(Mistake) as refused:
        OnnxModel(path)
    said = str(refused.value)
    assert str(path) in said
    assert "\n" not in said
    return said


def test_a_model_of_others_is_refused(tmp_path):
    assert "does not say what it takes" in one_sentence(foreign(tmp_path / "theirs.onnx"))
    assert "does not say what it takes" in one_sentence(foreign(tmp_path / "words.onnx", **{METADATA: "no JSON"}))
    assert "does not say which model" in one_sentence(foreign(tmp_path / "empty.onnx", **{METADATA: "{}"}))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_model_that_is_cut_short_is_refused(tmp_path, exported, share):
    whole = exported.files["fp32"].read_bytes()
    (tmp_path / "cut.onnx").write_bytes(whole[: int(share * len(whole))])
    one_sentence(tmp_path / "cut.onnx")


def test_every_change_of_an_exported_file_is_refused(tmp_path, exported):
    stored = exported.files["fp32"].read_bytes()
    random = np.random.default_rng(0)
    for kind in range(60):
        damaged = bytearray(stored)
        place = int(random.integers(len(stored)))
        if kind % 3 == 0:
            damaged[place] ^= 1 << int(random.integers(8))
        elif kind % 3 == 1:
            damaged[place : place + 8] = random.bytes(8)
        else:
            del damaged[place]
        if bytes(damaged) == stored:
            continue
        (tmp_path / "x.onnx").write_bytes(damaged)
        one_sentence(tmp_path / "x.onnx")


def test_weights_in_another_order_under_the_same_metadata_are_refused(tmp_path, exported):
    model = onnx.load(exported.files["fp32"])
    before = {one.key: one.value for one in model.metadata_props}
    largest = max(model.graph.initializer, key=lambda one: len(one.raw_data))
    largest.raw_data = numpy_helper.to_array(largest)[::-1].tobytes()
    onnx.save(model, tmp_path / "x.onnx")
    assert {one.key: one.value for one in onnx.load(tmp_path / "x.onnx").metadata_props} == before
    assert "is damaged: its bytes are not those that were exported" in one_sentence(tmp_path / "x.onnx")
    del model.metadata_props[next(n for n, one in enumerate(model.metadata_props) if one.key == "sha256")]
    onnx.save(model, tmp_path / "x.onnx")
    assert "does not say which bytes it had" in one_sentence(tmp_path / "x.onnx")


def test_what_is_no_model_or_not_there_is_refused(tmp_path):
    (tmp_path / "text.onnx").write_text("hello")
    assert "is no model that onnxruntime" in one_sentence(tmp_path / "text.onnx")
    assert "is not there" in one_sentence(tmp_path / "nothing.onnx")


def test_threads_do_not_change_the_rows(exported):
    import numpy as np

    pixels = np.random.default_rng(0).integers(0, 256, (3, 1, 8, 8)).astype(np.uint8)
    one, two = (OnnxModel(exported.files["int8"], threads).embed(pixels) for threads in (1, 2))
    np.testing.assert_allclose(one, two, atol=1e-6)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"dim": 3}, "takes or gives something else than it says"),
        ({"shape": {"size": 16, "resize": 16, "channels": 1}}, "takes or gives something else than it says"),
        ("[" * 100_000, "does not say what it takes"),
    ],
)
def test_metadata_that_do_not_fit_the_graph_are_refused(tmp_path, exported, wrong, sentence):
    model = onnx.load(exported.files["fp32"])
    for one in model.metadata_props:
        if one.key == METADATA:
            one.value = wrong if isinstance(wrong, str) else json.dumps(json.loads(one.value) | wrong)
        if one.key == DIGEST:
            one.value = DIGITS * "0"
    (tmp_path / "forged.onnx").write_bytes(seal_model(model.SerializeToString()))
    assert sentence in one_sentence(tmp_path / "forged.onnx")
