"""`timm:NAME`: any network of timm, as timm pools it.

Mean, std and the name of its classifier are those of timm's own record of the network. Small images change nothing
here: a network that cannot take the size, because its map vanishes or its patches do not fit, is refused with what
it said, after one image of zeros.
"""

import difflib
from typing import Any

import torch
from torch import nn

from shadowmetric.app.models.backbones import Backbone
from shadowmetric.app.models.first_layer import fit_channels
from shadowmetric.app.models.wording import one_line
from shadowmetric.errors import ModelMistake

PREFIX = "timm:"


def timm_backbone(name: str) -> Backbone:
    """Return what timm knows of a network; the name is without `timm:`."""
    import timm

    if not timm.is_model(name):
        close = difflib.get_close_matches(name, timm.list_models(), n=3, cutoff=0.5)
        nearest = f"; the nearest names are {', '.join(close)}" if close else ""
        raise ModelMistake(f"timm {timm.__version__} has no network {name!r}{nearest}.")
    try:
        known: Any = timm.get_pretrained_cfg(name)
    except Exception as error:
        raise ModelMistake(f"timm {timm.__version__} has no {name!r} ({one_line(error)}).") from None
    names = known.classifier or ()

    def make(channels: int, size: int) -> nn.Module:
        network = timm.create_model(name, num_classes=0, pretrained=False)
        fit_channels(network, channels)
        return network

    classifier = {part.split(".")[0] for part in ((names,) if isinstance(names, str) else names)}
    return Backbone(make, None, tuple(known.mean), tuple(known.std), tuple(sorted(classifier)))


def probe_features(name: str, network: nn.Module, channels: int, size: int) -> int:
    """Return the length of the rows of a network, or refuse a size that it cannot take."""
    training = network.training
    try:
        with torch.no_grad():
            rows = network.eval()(torch.zeros(1, channels, size, size))
    except Exception as error:
        raise ModelMistake(
            f"{name} cannot take images of {size} pixels ({one_line(error)}); give another size."
        ) from None
    network.train(training)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ModelMistake(f"{name} gives {tuple(rows.shape)} for one image of {size} pixels, not one row.")
    return rows.shape[1]
