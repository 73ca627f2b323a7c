"""The small network: its size, its maths by hand, and every place of a small image counts."""

import pytest
import torch
from torch.nn import functional

from shadowmetric.app.models.small_cnn import CHANNELS, SmallCNN


@pytest.mark.parametrize(
    ("size", "maps"), [(8, (4, 4, 4, 4)), (9, (5, 3, 3, 3)), (28, (14, 7, 4, 4)), (64, (32, 16, 8, 4))]
)
def test_it_is_relu_of_batch_norm_of_the_largest_of_convolutions_four_times_and_a_mean(size, maps):
    network = SmallCNN(1, size).eval()
    images = torch.randn(3, 1, size, size)
    seen = images
    for number, side in enumerate(maps):
        conv, _, norm, _ = network.stages[number]
        norm.running_mean.uniform_(-0.1, 0.1)
        norm.running_var.uniform_(0.5, 2.0)
        seen = functional.conv2d(seen, conv.weight, padding=1)
        if seen.shape[-1] > side:
            odd = 2 * side - seen.shape[-1]
            seen = functional.pad(seen, (0, odd, 0, odd), value=-torch.inf)
            seen = seen.unflatten(3, (side, 2)).unflatten(2, (side, 2)).amax((3, 5))
        mean, variance = (value[:, None, None] for value in (norm.running_mean, norm.running_var))
        seen = torch.relu((seen - mean) / (variance + norm.eps).sqrt())
        assert seen.shape[-2:] == (side, side)
    torch.testing.assert_close(network(images), seen.mean(dim=(2, 3)), rtol=1e-4, atol=1e-5)


def test_it_is_as_large_as_it_says():
    count = sum(parameter.numel() for parameter in SmallCNN(1).parameters())
    assert count == 9 * sum(a * b for a, b in zip((1, *CHANNELS), CHANNELS, strict=False)) + 2 * sum(CHANNELS)
    assert round(count, -3) == 97_000


def test_every_pixel_of_an_8_pixel_image_can_count():
    """A pool keeps one answer of four, so not every pixel counts in every image, but each does in some."""
    torch.manual_seed(0)
    images = torch.randn(16, 1, 8, 8, requires_grad=True)
    SmallCNN(1, 8)(images).pow(2).sum().backward()
    assert images.grad is not None
    assert (images.grad != 0).any(0).all()
