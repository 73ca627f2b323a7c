"""The backbones by name: how each is made from scratch, and what its published weights expect.

    name        features   from          up to 64 pixels
    small_cnn   128        small_cnn.py  stride 1 once the map is 4 wide
    resnet18    512        torchvision   stem of stride 1, no pool after it
    googlenet   1024       torchvision   the same; with batch normalization, no dropout, no auxiliary classifiers
    vgg16       512        torchvision   without the last pool (below 32 pixels), or the last two (below 16)

`timm:NAME` is timm_backbone.py. A backbone ends in pooled rows; the classifier of the network it comes from is not
built. VGG-16 is the 13 convolutions and the mean over places, not the two layers of 4,096 that follow in its paper:
those fit 224 pixels only, and are 119 of its 138 million parameters.

GoogLeNet and VGG-16 begin as torchvision's ResNet does, with normal kernels of variance 2 / (places × out channels).
Torchvision's own start for GoogLeNet, a truncated normal of 0.01, takes many seconds.

Pixels: GoogLeNet's weights were learned on (p - 0.5) / 0.5, the others' on ImageNet's mean and std. Torchvision hides
that in `transform_input`; here it is the embedder's mean and std.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from shadowmetric.app.models.first_layer import SMALL, fit_channels
from shadowmetric.app.models.small_cnn import SmallCNN

HALF = (0.5, 0.5, 0.5)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Backbone:
    """What is known of a backbone. make(channels, size) draws its weights from torch's generator."""

    make: Callable[[int, int], nn.Module]
    features: int | None  # None: seen on the first image
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    classifier: tuple[str, ...] = ()  # parts of the source network that a backbone does without
    fit: Callable[[dict[str, Tensor], nn.Module], dict[str, Tensor]] | None = None  # weights to the size


def small_cnn(channels: int, size: int) -> nn.Module:
    """Return the small network."""
    return SmallCNN(channels, size)


def resnet18(channels: int, size: int) -> nn.Module:
    """Return ResNet-18 up to its pooled rows."""
    from torchvision import models

    network: Any = models.resnet18(weights=None)
    network.fc = nn.Identity()
    if size <= SMALL:
        network.conv1.stride = (1, 1)
        network.maxpool = nn.Identity()
    fit_channels(network, channels)
    return network


def googlenet(channels: int, size: int) -> nn.Module:
    """Return GoogLeNet up to its pooled rows."""
    from torchvision import models

    network: Any = models.googlenet(weights=None, aux_logits=False, transform_input=False, init_weights=False)
    network.fc, network.dropout = nn.Identity(), nn.Identity()
    if size <= SMALL:
        network.conv1.conv.stride = (1, 1)
        network.maxpool1 = nn.Identity()
    _begin(network)
    fit_channels(network, channels)
    return network


def vgg16(channels: int, size: int) -> nn.Module:
    """Return the convolutions of VGG-16 and the mean over places."""
    from torchvision.models import vgg

    layers = vgg.make_layers(vgg.cfgs["D"])
    pools = [place for place, layer in enumerate(layers) if isinstance(layer, nn.MaxPool2d)]
    for place in pools[size.bit_length() - 1 :]:  # after n pools size // 2**n places are left
        layers[place] = nn.Identity()
    network = nn.Sequential()
    network.features, network.pool, network.flat = layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()
    _begin(network)
    fit_channels(network, channels)
    return network


def _begin(network: nn.Module) -> None:
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


BACKBONES: dict[str, Backbone] = {
    "small_cnn": Backbone(small_cnn, 128, HALF, HALF),
    "resnet18": Backbone(resnet18, 512, classifier=("fc",)),
    "googlenet": Backbone(googlenet, 1024, HALF, HALF, classifier=("fc", "aux1", "aux2")),
    "vgg16": Backbone(vgg16, 512, classifier=("classifier",)),
}
