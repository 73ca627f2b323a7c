"""Small networks that were tried for `small_cnn`: four convolutions of 3 × 3 and an average each.

small_cnn     what `train` takes, see `shadowmetric/app/models/small_cnn.py`
strided       what it was before: strides of 2 instead of pools
late pool     convolution, normalization, relu, pool, as in most scripts
group norm    groups of 16 channels: no image depends on its batch, and no statistics are kept
no norm       a bias instead
wide          24 to 192 channels
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Literal

from torch import Tensor, nn

from shadowmetric.app.models.backbones import BACKBONES
from shadowmetric.app.models.small_cnn import CHANNELS, NARROWEST

Norm = Literal["batch", "group", "none"]
Halving = Literal["early", "late", "stride"]
GROUP = 16  # channels


class Stages(nn.Module):
    """Convolutions, each halved in one way while the map is wide, and the average over places."""

    def __init__(
        self,
        channels: int,
        size: int,
        widths: tuple[int, ...] = CHANNELS,
        *,
        norm: Norm = "batch",
        halving: Halving = "early",
    ):
        super().__init__()
        layers: list[nn.Module] = []
        for narrow, wide in pairwise((channels, *widths)):
            halved = size > NARROWEST
            stride = 2 if halved and halving == "stride" else 1
            conv = nn.Conv2d(narrow, wide, 3, stride=stride, padding=1, bias=norm == "none")
            nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
            pool = [nn.MaxPool2d(2, ceil_mode=True)] if halved and stride == 1 else []
            rest = [normalization(norm, wide), nn.ReLU(inplace=True)]
            layers += [conv, *rest, *pool] if halving == "late" else [conv, *pool, *rest]
            size = -(-size // 2) if halved else size
        self.layers, self.features = nn.Sequential(*layers), widths[-1]

    def forward(self, images: Tensor) -> Tensor:
        """Return one row for each image."""
        return self.layers(images).mean(dim=(2, 3))


def normalization(norm: Norm, width: int) -> nn.Module:
    """Return a layer of normalization."""
    if norm == "group":
        return nn.GroupNorm(max(1, width // GROUP), width)
    return nn.BatchNorm2d(width) if norm == "batch" else nn.Identity()


def small_cnn(channels: int, size: int) -> tuple[nn.Module, int]:
    """Return the product's network."""
    backbone = BACKBONES["small_cnn"]
    return backbone.make(channels, size), backbone.features or 0


def stages(
    widths: tuple[int, ...] = CHANNELS, norm: Norm = "batch", halving: Halving = "early"
) -> Callable[[int, int], tuple[nn.Module, int]]:
    """Return what makes such a network for (channels, size), with its features."""

    def make(channels: int, size: int) -> tuple[nn.Module, int]:
        return Stages(channels, size, widths, norm=norm, halving=halving), widths[-1]

    return make


NETWORKS: dict[str, Callable[[int, int], tuple[nn.Module, int]]] = {
    "small_cnn": small_cnn,
    "strided": stages(halving="stride"),
    "late pool": stages(halving="late"),
    "group norm": stages(norm="group"),
    "no norm": stages(norm="none"),
    "wide": stages((24, 48, 96, 192)),
}
