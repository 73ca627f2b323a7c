"""From a name to an embedder.

```python
from safetensors.torch import save_file

from shadowmetric.app.models import build_embedder

embedder = build_embedder("resnet18", size=32)  # from scratch
save_file(embedder.state_dict(), "mine.safetensors")
build_embedder("resnet18", size=224, weights="mine.safetensors", freeze_batch_norm=True)
```

`weights="pretrained"` downloads what torchvision or timm has published by that name.

The same name, settings and seed give the same weights, whatever was drawn before, and nothing drawn later changes:
torch's generator is seeded for the construction alone and then put back.

Gray images are normalized by the average of the backbone's means and stds: with kernels summed over the channels
that is what it was trained on, exactly where the channels are alike, as in GoogLeNet, else within a few per cent.
"""

from pathlib import Path

import torch

from shadowmetric.app.models import batch_norm
from shadowmetric.app.models.backbones import BACKBONES, Backbone
from shadowmetric.app.models.embedder import Embedder
from shadowmetric.app.models.first_layer import check_channels
from shadowmetric.app.models.match import load_matching
from shadowmetric.app.models.published import find_published_weights
from shadowmetric.app.models.timm_backbone import PREFIX, probe_features, timm_backbone
from shadowmetric.app.models.weights import read_weights
from shadowmetric.app.models.wording import check_whole
from shadowmetric.errors import ModelMistake

PRETRAINED = "pretrained"
SMALLEST = 8  # pixels


def build_embedder(
    name: str,
    *,
    dim: int = 64,
    channels: int = 3,
    size: int = 224,
    weights: str | Path | None = None,
    seed: int = 0,
    freeze_batch_norm: bool = False,
    unit: bool = True,
) -> Embedder:
    """Return an embedder for images of `size` pixels.

    name: one of BACKBONES, or timm:NAME. weights: None (from scratch), "pretrained" (published by the library), or a
    file; the head comes from the seed, unless a file has one of the same shape. unit: give rows length 1.
    """
    check_channels(channels)
    for setting, value, least in (("dim", dim, 1), ("size", size, SMALLEST), ("seed", seed, 0)):
        check_whole(setting, value, least)
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        backbone = find_backbone(name)
        torch.default_generator.manual_seed(seed)  # that of the CPU; torch.manual_seed would reach every device
        network = backbone.make(channels, size)
        features = backbone.features or probe_features(name, network, channels, size)
        mean, std = backbone.mean, backbone.std
        if channels == 1:
            mean, std = ((sum(values) / len(values),) for values in (mean, std))
        embedder = Embedder(network, features, dim, mean=mean, std=std, unit=unit)
        if weights is not None:
            tensors = find_published_weights(name) if weights == PRETRAINED else read_weights(Path(weights))
            tensors = tensors if backbone.fit is None else backbone.fit(tensors, network)
            source = f"{name}, published" if weights == PRETRAINED else str(weights)
            embedder.notes = (load_matching(embedder, tensors, source, backbone.classifier),)
    if freeze_batch_norm:
        batch_norm.freeze_batch_norm(embedder)
    return embedder


def find_backbone(name: str) -> Backbone:
    """Return what is known of a backbone."""
    if name.startswith(PREFIX):
        return timm_backbone(name.removeprefix(PREFIX))
    if name not in BACKBONES:
        raise ModelMistake(f"backbone is {name!r}; choose one of {', '.join(BACKBONES)}, or {PREFIX}NAME.")
    return BACKBONES[name]
