"""timm's networks by name: what timm records of them, sizes that they cannot take, names that it does not have."""

import pytest
import torch
from torch import nn

from shadowmetric.app.models import build_embedder
from shadowmetric.app.models.timm_backbone import probe_features, timm_backbone
from shadowmetric.errors import ModelMistake


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("name", "features"), [("test_resnet", 96), ("test_efficientnet", 256), ("test_vit", 64)])
def test_rows_and_a_gradient_in_the_first_layer(name, features, channels):
    embedder = build_embedder(f"timm:{name}", channels=channels, size=32)
    images = torch.rand(2, channels, 32, 32)
    assert embedder.backbone.training
    assert embedder.features(images).shape == (2, features)
    embedder(images)[:, 0].sum().backward()
    first = next(layer for layer in embedder.modules() if isinstance(layer, nn.Conv2d)).weight
    assert first.shape[1] == channels
    assert first.grad is not None
    assert first.grad.abs().sum() > 0


def test_mean_std_and_classifier_are_timm_s():
    known = timm_backbone("resnet18")
    assert known.mean == (0.485, 0.456, 0.406)
    assert known.std == (0.229, 0.224, 0.225)
    assert known.classifier == ("fc",)
    assert build_embedder("timm:test_resnet", size=32).std.flatten().tolist() == [0.5] * 3
    assert timm_backbone("levit_128s").classifier == ("head", "head_dist")


def test_the_image_of_zeros_moves_no_statistics():
    network = build_embedder("timm:test_resnet", size=32).backbone
    assert all(value == 0 for name, value in network.state_dict().items() if name.endswith("num_batches_tracked"))


def test_a_size_whose_map_vanishes_is_refused():
    network = nn.Sequential(nn.Conv2d(3, 4, 9), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    assert probe_features("timm:nine", network, 3, 9) == 4
    with pytest.raises(ModelMistake, match=r"timm:nine cannot take images of 8 pixels \(.*\); give another size"):
        probe_features("timm:nine", network, 3, 8)
    with pytest.raises(ModelMistake, match=r"timm:map gives \(1, 4, 1, 1\) for one image of 9 pixels, not one row"):
        probe_features("timm:map", network[:1], 3, 9)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("resnet1888", "has no network 'resnet1888'; the nearest names are .*resnet18"),
        ("?", "has no network '\\?'\\."),
        ("resnet18.elsewhere", "has no 'resnet18.elsewhere' \\(Invalid pretrained tag"),
        ("hf-hub:somebody/something", "has no network 'hf-hub:somebody/something'"),
    ],
)
def test_names_that_timm_does_not_have(name, sentence):
    with pytest.raises(ModelMistake, match=sentence):
        build_embedder(f"timm:{name}")
