"""Published weights: through the same door as files, and one sentence where they cannot be had."""

import urllib.error

import pytest
import timm
import torch
from huggingface_hub import constants
from torchvision import models

from shadowmetric.app.models import build_embedder
from shadowmetric.errors import ModelMistake


@pytest.fixture
def resnet_cache(tmp_path, monkeypatch):
    """torch's cache in an empty folder, and no network; returns where ResNet-18 would lie."""
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))

    def unreachable(*args, **settings):
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr(torch.hub, "download_url_to_file", unreachable)
    return tmp_path / "checkpoints" / models.ResNet18_Weights.DEFAULT.url.rsplit("/", 1)[1]


def test_torchvision_s_cache_is_used(resnet_cache):
    source = models.resnet18(weights=None)
    resnet_cache.parent.mkdir()
    torch.save(source.state_dict(), resnet_cache)
    embedder = build_embedder("resnet18", size=32, weights="pretrained")
    assert torch.equal(embedder.backbone.layer4[1].conv2.weight, source.layer4[1].conv2.weight)
    assert embedder.notes == ("Weights of the backbone from resnet18, published; not used: fc.weight, fc.bias.",)
    gray = build_embedder("resnet18", size=32, channels=1, weights="pretrained")
    torch.testing.assert_close(gray.backbone.conv1.weight, source.conv1.weight.sum(1, keepdim=True))


def test_without_cache_and_network_torchvision_s_place_is_named(resnet_cache):
    with pytest.raises(ModelMistake) as caught:
        build_embedder("resnet18", weights="pretrained")
    sentence = str(caught.value)
    assert sentence.startswith(f"the published weights of resnet18 ({resnet_cache.name}) cannot be had: torchvision")
    assert str(resnet_cache.parent) in sentence
    assert "Name or service not known" in sentence
    assert "--weights FILE" in sentence
    assert "\n" not in sentence


def test_without_cache_and_network_timm_s_place_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelMistake) as caught:
        build_embedder("timm:test_resnet", size=32, weights="pretrained")
    sentence = str(caught.value)
    assert sentence.startswith("the published weights of timm:test_resnet (timm/test_resnet.r160_in1k) cannot be had")
    assert str(tmp_path) in sentence
    assert "--weights FILE" in sentence
    assert "\n" not in sentence


def test_timm_s_weights_are_used(monkeypatch):
    source = timm.create_model("test_resnet", num_classes=0)
    make = timm.create_model
    monkeypatch.setattr(
        timm,
        "create_model",
        lambda name, pretrained, num_classes: source if pretrained else make(name, num_classes=num_classes),
    )
    embedder = build_embedder("timm:test_resnet", size=32, weights="pretrained")
    assert embedder.backbone is not source
    assert all(torch.equal(value, source.state_dict()[name]) for name, value in embedder.backbone.state_dict().items())


def test_the_small_network_has_none():
    with pytest.raises(ModelMistake, match="small_cnn has no published weights"):
        build_embedder("small_cnn", weights="pretrained")
