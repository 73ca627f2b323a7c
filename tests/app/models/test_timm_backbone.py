"""timm's networks by name: what timm records of them, sizes that they cannot take, names that it does not have."""

import pytest
import timm
import torch
from safetensors.torch import save_file
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


def test_a_transformer_is_built_for_the_size_and_its_positions_are_interpolated(tmp_path):
    """DINOv2 is built for 518 pixels and refused all others."""
    embedder = build_embedder("timm:vit_small_patch14_dinov2", size=28)
    assert embedder.features(torch.rand(1, 3, 28, 28)).shape == (1, 384)
    source = timm.create_model("test_vit", num_classes=0)  # of 160 pixels: 10 x 10 patches and a class token
    save_file(source.state_dict(), tmp_path / "vit.safetensors")
    for size, grid in ((160, 10), (64, 4)):
        fitted = build_embedder("timm:test_vit", size=size, weights=tmp_path / "vit.safetensors").backbone
        positions = fitted.state_dict()["pos_embed"]
        assert positions.shape == (1, 1 + grid * grid, 64)
        assert torch.equal(positions[:, 0], source.pos_embed[:, 0])
        same = fitted.state_dict()["blocks.0.attn.qkv.weight"]
        assert torch.equal(same, source.state_dict()["blocks.0.attn.qkv.weight"])
    constant = source.state_dict() | {"pos_embed": torch.ones_like(source.pos_embed)}
    save_file({f"backbone.{name}": value for name, value in constant.items()}, tmp_path / "flat.safetensors")
    flat = build_embedder("timm:test_vit", size=64, weights=tmp_path / "flat.safetensors").backbone
    torch.testing.assert_close(flat.state_dict()["pos_embed"], torch.ones(1, 17, 64))
