"""Small networks that were tried for `small_cnn`, all of convolutions of 3 × 3 and an average.

pooled(widths, order, norm): a pool of 2 × 2 after each convolution while the map is wider than 4. order: where it
stands, conv-norm-relu-pool or conv-pool-norm-relu, which normalizes a quarter of the numbers.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from shadowmetric.app.models.small_cnn import SmallCNN

Norm = Literal["batch", "group", "none"]
NARROWEST = 4


class Pooled(nn.Module):
    """Convolutions and pools, and the average and perhaps the largest over places."""

    def __init__(
        self,
        channels: int,
        size: int,
        widths: tuple[int, ...],
        *,
        norm: Norm = "batch",
        early: bool = True,
        largest: bool = False,
        twice: bool = False,
    ):
        super().__init__()
        layers: list[nn.Module] = []
        for narrow, wide in pairwise((channels, *widths)):
            conv = nn.Conv2d(narrow, wide, 3, padding=1, bias=norm == "none")
            nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
            pool = [nn.MaxPool2d(2)] if size > NARROWEST else []
            size = size // 2 if pool else size
            rest = [normalization(norm, wide), nn.ReLU(inplace=True)]
            layers += [conv, *pool, *rest] if early else [conv, *rest, *pool]
            if twice and wide == widths[-1]:
                layers += [nn.Conv2d(wide, wide, 3, padding=1, bias=False), *[normalization(norm, wide), nn.ReLU()]]
        self.layers, self.largest = nn.Sequential(*layers), largest
        self.features = widths[-1] * (2 if largest else 1)

    def forward(self, images: Tensor) -> Tensor:
        """Return one row for each image."""
        maps = self.layers(images)
        mean = maps.mean(dim=(2, 3))
        return torch.cat([mean, maps.amax(dim=(2, 3))], 1) if self.largest else mean


def normalization(norm: Norm, width: int) -> nn.Module:
    """Return a layer of normalization."""
    if norm == "group":
        return nn.GroupNorm(max(1, width // 16), width)
    return nn.BatchNorm2d(width) if norm == "batch" else nn.Identity()


def strided(channels: int, size: int) -> nn.Module:
    """Return the network that `small_cnn` was until this sweep."""
    network: nn.Module = SmallCNN(channels, size)
    network.features = 128  # pyright: ignore
    return network


def pooled(*widths: int, **choices: object) -> Callable[[int, int], nn.Module]:
    """Return how to make such a network for (channels, size)."""
    return lambda channels, size: Pooled(channels, size, widths, **choices)  # pyright: ignore


NETWORKS: dict[str, Callable[[int, int], nn.Module]] = {
    "strided 16-32-64-128": strided,
    "16-32-64-128": pooled(16, 32, 64, 128),
    "16-32-64-128 group": pooled(16, 32, 64, 128, norm="group"),
    "16-32-64-128 none": pooled(16, 32, 64, 128, norm="none"),
    "24-48-96-192": pooled(24, 48, 96, 192),
    "24-48-96-192 late": pooled(24, 48, 96, 192, early=False),
    "24-48-96-192 group": pooled(24, 48, 96, 192, norm="group"),
    "24-48-96-192 none": pooled(24, 48, 96, 192, norm="none"),
    "24-48-96-192 largest": pooled(24, 48, 96, 192, largest=True),
    "32-64-128-256": pooled(32, 64, 128, 256),
    "32-64-128-256 group": pooled(32, 64, 128, 256, norm="group"),
    "24-48-96-128-192": pooled(24, 48, 96, 128, 192),
    "16-32-64-128 twice": pooled(16, 32, 64, 128, twice=True),
}
