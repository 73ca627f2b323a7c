"""The small network: its size, its maths by hand, and every place of a small image counts."""

import pytest
import torch
from torch.nn import functional

from shadowmetric.app.models.small_cnn import CHANNELS, SmallCNN


@pytest.mark.parametrize(("size", "strides"), [(8, (2, 1, 1, 1)), (28, (2, 2, 2, 1)), (64, (2, 2, 2, 2))])
def test_it_is_relu_of_batch_norm_of_convolution_four_times_and_a_mean(size, strides):
    network = SmallCNN(1, size).eval()
    images = torch.randn(3, 1, size, size)
    maps = images
    for number in range(4):
        conv, norm, _ = network.stages[number]
        norm.running_mean.uniform_(-0.1, 0.1)
        norm.running_var.uniform_(0.5, 2.0)
        maps = functional.conv2d(maps, conv.weight, stride=strides[number], padding=1)
        mean, variance = (value[:, None, None] for value in (norm.running_mean, norm.running_var))
        maps = torch.relu((maps - mean) / (variance + norm.eps).sqrt())
    torch.testing.assert_close(network(images), maps.mean(dim=(2, 3)), rtol=1e-4, atol=1e-5)


def test_it_is_as_large_as_it_says():
    count = sum(parameter.numel() for parameter in SmallCNN(1).parameters())
    assert count == 9 * sum(a * b for a, b in zip((1, *CHANNELS), CHANNELS, strict=False)) + 2 * sum(CHANNELS)
    assert round(count, -3) == 97_000


def test_every_pixel_of_an_8_pixel_image_counts():
    torch.manual_seed(0)
    images = torch.randn(2, 1, 8, 8, requires_grad=True)
    SmallCNN(1, 8)(images).pow(2).sum().backward()
    assert images.grad is not None
    assert (images.grad != 0).all()
