"""The first layer, fitted to gray images and to small ones. Kernels keep what they have learned.

Gray: an image repeated in three channels meets the sum of a kernel's three parts,

    sum_c k_c * p = (sum_c k_c) * p

so one channel gets the sum, not the mean: the output is that of the repeated image, where all channels are
normalized alike. The mean would dim every response to a third, against which the statistics of batch
normalization were not taken.

Small: up to 64 pixels, a stem of stride 2 and a pool would leave a map of a few places for the deep layers.
The convolution of the stem gets stride 1 and the pool after it goes; the kernels stay.
"""

import torch
from torch import Tensor, nn

from shadowmetric.errors import ModelMistake

SMALL = 64  # pixels: up to this size the stem keeps the resolution


def check_channels(channels: int) -> None:
    """Refuse what is neither gray nor RGB."""
    if channels not in (1, 3):
        raise ModelMistake(f"channels is {channels!r}; a backbone takes 1 (gray) or 3 (RGB).")


def first_convolution(module: nn.Module) -> tuple[str, nn.Conv2d]:
    """Return the layer that meets the pixels, with its name."""
    for name, layer in module.named_modules():
        if isinstance(layer, nn.Conv2d):
            return name, layer
    raise ModelMistake(f"{type(module).__name__} has no 2-d convolution that could be fitted to gray images.")


def gray_kernels(kernels: Tensor) -> Tensor:
    """Return kernels for one channel, (out, 1, height, width), from those of several."""
    return kernels.sum(dim=1, keepdim=True)


def fit_channels(module: nn.Module, channels: int) -> None:
    """Make a network for RGB take gray images, if that is wanted."""
    if channels == 3:
        return
    _, layer = first_convolution(module)
    if layer.in_channels != 3 or layer.groups != 1:
        raise ModelMistake(
            f"the first convolution of {type(module).__name__} takes {layer.in_channels} channels in {layer.groups} "
            "groups; only one that takes 3 in one group can be fitted to gray images. Give RGB ones."
        )
    with torch.no_grad():
        layer.weight = nn.Parameter(gray_kernels(layer.weight))
    layer.in_channels = 1
