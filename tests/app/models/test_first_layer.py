"""Gray images: one channel gets the sum of the kernels, so that it gives what three equal channels give."""

import pytest
import torch
from torch import nn

from shadowmetric.app.models.backbones import BACKBONES
from shadowmetric.app.models.first_layer import check_channels, first_convolution, fit_channels, gray_kernels
from shadowmetric.errors import ModelMistake


def test_a_gray_image_gives_what_it_gives_in_three_channels():
    conv = nn.Conv2d(3, 8, 5, padding=2)
    gray = torch.randn(2, 1, 9, 9)
    wanted = conv(gray.repeat(1, 3, 1, 1))
    torch.testing.assert_close(nn.functional.conv2d(gray, gray_kernels(conv.weight), conv.bias, padding=2), wanted)
    fit_channels(conv, 1)
    assert conv.in_channels == 1
    assert conv.weight.requires_grad
    torch.testing.assert_close(conv(gray), wanted)


@pytest.mark.parametrize("name", ["resnet18", "googlenet", "vgg16"])
def test_whole_backbones_too(name):
    torch.manual_seed(0)
    color = BACKBONES[name].make(3, 28).eval()
    torch.manual_seed(0)
    gray = BACKBONES[name].make(1, 28).eval()
    images = torch.randn(2, 1, 28, 28)
    with torch.no_grad():
        torch.testing.assert_close(gray(images), color(images.repeat(1, 3, 1, 1)), rtol=1e-3, atol=1e-4)


def test_rgb_is_left_as_it_is():
    conv = nn.Conv2d(3, 8, 5)
    weight = conv.weight
    fit_channels(conv, 3)
    assert conv.weight is weight


def test_the_first_convolution_is_found_by_name():
    network = nn.Sequential(nn.Identity(), nn.Sequential(nn.Conv2d(3, 4, 1)), nn.Conv2d(4, 4, 1))
    assert first_convolution(network) == ("1.0", network[1][0])
    with pytest.raises(ModelMistake, match="Linear has no 2-d convolution"):
        first_convolution(nn.Linear(2, 2))


@pytest.mark.parametrize("channels", [0, 2, 4])
def test_other_counts_are_refused(channels):
    with pytest.raises(ModelMistake, match=rf"channels is {channels}; a backbone takes 1 \(gray\) or 3 \(RGB\)"):
        check_channels(channels)


@pytest.mark.parametrize("conv", [nn.Conv2d(4, 8, 3), nn.Conv2d(3, 9, 3, groups=3)])
def test_kernels_that_cannot_be_summed_are_refused(conv):
    with pytest.raises(ModelMistake, match="only one that takes 3 in one group"):
        fit_channels(conv, 1)
