"""`timm:NAME`: any network of timm, as timm pools it.

Mean, std and the name of its classifier are those of timm's own record of the network. One that is built for one size,
as vision transformers are, is built for the size asked for, and the positions that its weights have learned are
interpolated to it, as timm does with its own. Small images change nothing else here: a network that cannot take the
size, because its map vanishes or its patches do not fit, is refused with what it said, after one image of zeros.
"""

import difflib
from typing import Any

import torch
from torch import Tensor, nn

from shadowmetric.app.models.backbones import Backbone
from shadowmetric.app.models.first_layer import fit_channels
from shadowmetric.app.models.wording import one_line
from shadowmetric.errors import ModelMistake

PREFIX = "timm:"
POSITIONS = "pos_embed"  # what timm's transformers call the positions of their patches


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
        sized: dict[str, Any] = {"img_size": size} if known.fixed_input_size else {}
        try:
            network = timm.create_model(name, num_classes=0, pretrained=False, **sized)
        except Exception as error:
            raise cannot_take(PREFIX + name, size, error) from None
        fit_channels(network, channels)
        return network

    classifier = {part.split(".")[0] for part in ((names,) if isinstance(names, str) else names)}
    return Backbone(make, None, tuple(known.mean), tuple(known.std), tuple(sorted(classifier)), fit_positions)


def fit_positions(tensors: dict[str, Tensor], network: nn.Module) -> dict[str, Tensor]:
    """Return weights with learned positions interpolated to the size that a network was built for."""
    from timm.layers.pos_embed import resample_abs_pos_embed

    fitted = dict(tensors)
    wanted: dict[str, Tensor] = network.state_dict()
    for name in [name for name in tensors if name.removeprefix("backbone.") == POSITIONS and POSITIONS in wanted]:
        positions, goal = tensors[name], wanted[POSITIONS]
        embed: Any = getattr(network, "patch_embed", None)
        several = positions.ndim == goal.ndim == 3 and positions.shape[::2] == goal.shape[::2]
        if several and positions.shape != goal.shape and embed is not None:
            before = goal.shape[1] - embed.grid_size[0] * embed.grid_size[1]  # class and register tokens
            fitted[name] = resample_abs_pos_embed(positions, list(embed.grid_size), num_prefix_tokens=before)
    return fitted


def cannot_take(name: str, size: int, error: Exception) -> ModelMistake:
    """Return the refusal of a size, with what the network said."""
    return ModelMistake(f"{name} cannot take images of {size} pixels ({one_line(error)}); give another size.")


def probe_features(name: str, network: nn.Module, channels: int, size: int) -> int:
    """Return the length of the rows of a network, or refuse a size that it cannot take."""
    training = network.training
    try:
        with torch.no_grad():
            rows = network.eval()(torch.zeros(1, channels, size, size))
    except Exception as error:
        raise cannot_take(name, size, error) from None
    network.train(training)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ModelMistake(f"{name} gives {tuple(rows.shape)} for one image of {size} pixels, not one row.")
    return rows.shape[1]
