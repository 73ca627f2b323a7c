"""Weights into an embedder: all of the backbone or nothing, and what may differ."""

import pytest
import torch
from torch import nn

from shadowmetric.app.models import Embedder, build_embedder
from shadowmetric.app.models.match import load_matching
from shadowmetric.errors import ModelMistake

NETWORK = build_embedder("small_cnn", seed=7)
BACKBONE = NETWORK.backbone.state_dict()
WHOLE = NETWORK.state_dict()


def loaded(tensors, classifier=(), **settings):
    embedder = build_embedder("small_cnn", **settings)
    return embedder, load_matching(embedder, tensors, "file", classifier)


def equal(module, tensors):
    return all(torch.equal(value, tensors[name]) for name, value in module.state_dict().items())


def test_a_backbone_s_own_names():
    embedder, note = loaded(BACKBONE)
    assert equal(embedder.backbone, BACKBONE)
    assert equal(embedder.head, build_embedder("small_cnn").head.state_dict())
    assert note == "Weights of the backbone from file; all used."


def test_a_whole_embedder_with_a_head_of_the_same_shape():
    embedder, note = loaded(WHOLE)
    assert equal(embedder, WHOLE)
    assert note == "Weights of the backbone and the head from file; all used."


def test_a_whole_embedder_with_a_head_of_another_shape():
    embedder, note = loaded(WHOLE, dim=16)
    assert equal(embedder.backbone, BACKBONE)
    assert embedder.head.weight.shape == (16, 128)
    assert note == "Weights of the backbone from file; not used: head.weight, head.bias."


def test_the_classifier_is_listed_as_not_used():
    extra = {"fc.weight": torch.ones(9, 128), "fc.bias": torch.ones(9)}
    embedder, note = loaded(BACKBONE | extra, ("fc",))
    assert equal(embedder.backbone, BACKBONE)
    assert note.endswith("not used: fc.weight, fc.bias.")
    with pytest.raises(ModelMistake, match=r"2 unexpected: fc.weight, fc.bias"):
        loaded(BACKBONE | extra)


def test_half_precision_becomes_float32():
    embedder, _ = loaded({name: value.half() if value.is_floating_point() else value for name, value in WHOLE.items()})
    assert {value.dtype for value in embedder.parameters()} == {torch.float32}
    torch.testing.assert_close(embedder.head.weight, NETWORK.head.weight, rtol=1e-3, atol=1e-3)


def test_kernels_for_rgb_are_summed_for_gray_images():
    embedder, _ = loaded(
        {name: value.half() if value.is_floating_point() else value for name, value in WHOLE.items()}, channels=1
    )
    images = torch.rand(3, 1, 16, 16)
    rows, wanted = embedder.eval()(images), NETWORK.eval()(images.repeat(1, 3, 1, 1))
    torch.testing.assert_close(rows, wanted, rtol=0.0, atol=3e-3)


def test_gray_kernels_load_into_gray_and_not_into_rgb():
    gray = build_embedder("small_cnn", channels=1, seed=3).state_dict()
    assert equal(loaded(gray, channels=1)[0], gray)
    with pytest.raises(
        ModelMistake, match=r"1 of another shape: stages.0.0.weight \(16, 1, 3, 3\) for \(16, 3, 3, 3\)"
    ):
        loaded(gray)


def test_old_files_without_counts_of_batches():
    embedder, _ = loaded({name: value for name, value in BACKBONE.items() if "num_batches" not in name})
    assert equal(embedder.backbone, BACKBONE)


def test_nothing_is_loaded_unless_all_is_there():
    embedder = build_embedder("small_cnn")
    before = {name: value.clone() for name, value in embedder.state_dict().items()}
    wrong = dict(list(BACKBONE.items())[1:]) | {"more": torch.ones(1), "stages.3.0.weight": torch.ones(2, 2)}
    with pytest.raises(ModelMistake) as caught:
        load_matching(embedder, wrong, "file")
    assert str(caught.value) == (
        "weights file do not fit the backbone's 24 tensors (1 missing: stages.0.0.weight; 1 unexpected: more; "
        "1 of another shape: stages.3.0.weight (2, 2) for (128, 64, 3, 3))."
    )
    assert equal(embedder, before)


def test_many_names_are_counted():
    with pytest.raises(
        ModelMistake, match=r"\(20 missing: stages.0.0.weight, stages.0.2.weight, stages.0.2.bias and 17 more; 1 un"
    ):
        loaded({"other": torch.ones(1)})


def test_numbers_that_are_not_finite():
    with pytest.raises(ModelMistake, match=r"has numbers in stages.1.2.bias that are not finite"):
        loaded(BACKBONE | {"stages.1.2.bias": torch.full((32,), torch.nan)})


def test_what_stands_beside_a_backbone_is_not_used():
    _, note = loaded(
        {name: value for name, value in WHOLE.items() if "head" not in name} | {"projector.weight": torch.ones(1)}
    )
    assert note == "Weights of the backbone from file; not used: projector.weight."


def test_a_network_whose_own_names_begin_with_backbone():
    network = nn.Sequential()
    network.backbone = nn.Linear(3, 2)
    embedder = Embedder(network, 2, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    load_matching(embedder, {"backbone.weight": torch.ones(2, 3), "backbone.bias": torch.ones(2)}, "file")
    assert torch.equal(network.backbone.weight, torch.ones(2, 3))
