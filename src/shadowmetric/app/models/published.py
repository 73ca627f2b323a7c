"""`--weights pretrained`: what torchvision or timm publish, from their own caches, else from the network.

Both are asked for tensors alone. They go through the same door as a file does (match.py), so that gray and small
images work alike.
"""

from pathlib import Path

import torch
from torch import Tensor

from shadowmetric.app.models.timm_backbone import PREFIX
from shadowmetric.app.models.wording import one_line
from shadowmetric.errors import ModelMistake


def find_published_weights(name: str) -> dict[str, Tensor]:
    """Return the published weights of a backbone, or say where they were looked for."""
    if name == "small_cnn":
        raise ModelMistake("small_cnn has no published weights; leave --weights out, or give a file of yours.")
    return _from_timm(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else _from_torchvision(name)


def _from_torchvision(name: str) -> dict[str, Tensor]:
    from torchvision import models

    weights = models.get_model_weights(name)["DEFAULT"]
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    try:
        return dict(weights.get_state_dict(progress=False, check_hash=True, weights_only=True))
    except Exception as error:
        raise _not_had(f"{name} ({Path(weights.url).name})", "torchvision", folder, error) from None


def _from_timm(name: str) -> dict[str, Tensor]:
    import timm
    from huggingface_hub import constants

    known = timm.get_pretrained_cfg(name)
    where = known.hf_hub_id if known and known.hf_hub_id else "no address"
    try:
        return timm.create_model(name, pretrained=True, num_classes=0).state_dict()
    except Exception as error:
        raise _not_had(f"{PREFIX}{name} ({where})", "timm", constants.HF_HUB_CACHE, error) from None


def _not_had(what: str, library: str, folder: str | Path, error: Exception) -> ModelMistake:
    return ModelMistake(
        f"the published weights of {what} cannot be had: {library} looks in {folder} and then on the network "
        f"({one_line(error)}); give a local file with --weights FILE, or leave --weights out to train from scratch."
    )
