"""The backbones: rows at every size, the stem for small images, and the networks that their weights come from."""

import pytest
import torch
from torch import nn
from torchvision import models

from shadowmetric.app.models.backbones import BACKBONES, IMAGENET_MEAN, IMAGENET_STD


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", BACKBONES)
def test_small_images_give_rows_and_the_first_layer_gets_a_gradient(name, channels):
    network = BACKBONES[name].make(channels, 28)
    rows = network(torch.randn(2, channels, 28, 28))
    assert rows.shape == (2, BACKBONES[name].features)
    rows.pow(2).sum().backward()
    first = next(network.parameters())
    assert first.shape[1] == channels
    assert first.grad is not None
    assert first.grad.isfinite().all()
    assert first.grad.abs().sum() > 0


@pytest.mark.parametrize("size", [8, 32, 96])
@pytest.mark.parametrize("name", BACKBONES)
def test_other_sizes_give_rows_that_differ_from_image_to_image(name, size):
    network = BACKBONES[name].make(3, size).eval()
    with torch.no_grad():
        rows = network(torch.randn(2, 3, size, size))
    assert rows.shape == (2, BACKBONES[name].features)
    assert rows.isfinite().all()
    assert not torch.allclose(rows[0], rows[1])


@pytest.mark.parametrize(
    ("name", "first", "pool"), [("resnet18", "conv1", "maxpool"), ("googlenet", "conv1.conv", "maxpool1")]
)
def test_up_to_64_pixels_the_stem_keeps_the_resolution_and_its_kernels(name, first, pool):
    torch.manual_seed(0)
    small = BACKBONES[name].make(3, 64)
    torch.manual_seed(0)
    large = BACKBONES[name].make(3, 65)
    assert small.get_submodule(first).stride == (1, 1)
    assert large.get_submodule(first).stride == (2, 2)
    assert isinstance(small.get_submodule(pool), nn.Identity)
    assert isinstance(large.get_submodule(pool), nn.MaxPool2d)
    assert small.state_dict().keys() == large.state_dict().keys()
    assert all(torch.equal(value, large.state_dict()[key]) for key, value in small.state_dict().items())


@pytest.mark.parametrize(("size", "pools"), [(8, 3), (15, 3), (16, 4), (28, 4), (31, 4), (32, 5), (224, 5)])
def test_vgg16_drops_the_pools_that_would_leave_nothing(size, pools):
    network = BACKBONES["vgg16"].make(3, size)
    assert sum(isinstance(layer, nn.MaxPool2d) for layer in network.modules()) == pools


@pytest.mark.parametrize("name", ["resnet18", "googlenet"])
def test_large_images_give_what_torchvision_gives_its_classifier(name):
    settings = {"googlenet": {"aux_logits": False, "transform_input": True, "init_weights": False}}.get(name, {})
    source = models.get_model(name, weights=None, **settings).eval()
    backbone = BACKBONES[name]
    network = backbone.make(3, 96).eval()
    source.load_state_dict(network.state_dict(), strict=False)  # all but the classifier; torchvision's start is faint
    pixels = torch.rand(2, 3, 96, 96)
    seen = []
    source.fc.register_forward_pre_hook(lambda layer, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        source(normalized(pixels, IMAGENET_MEAN, IMAGENET_STD))
        rows = network(normalized(pixels, backbone.mean, backbone.std))
    assert rows.std() > 0.01
    torch.testing.assert_close(rows, seen[0], rtol=1e-3, atol=1e-4)


def normalized(pixels, mean, std):
    return (pixels - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]


def test_the_start_of_vgg16_neither_dies_out_nor_blows_up():
    torch.manual_seed(0)
    with torch.no_grad():
        rows = BACKBONES["vgg16"].make(3, 32)(torch.randn(4, 3, 32, 32))
    assert 1e-2 < rows.std() < 1e2
