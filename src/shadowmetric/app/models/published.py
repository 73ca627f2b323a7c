"""`--weights pretrained`: what torchvision or timm publish, from their own caches, else from the network.

Both are asked for tensors alone. They go through the same door as a file does (match.py), so that gray and small
images work alike.

Whether they can be had is asked before, and takes two seconds at most: a library without a network repeats itself for
most of a minute. HF_HUB_OFFLINE and its like are obeyed; a proxy that is named stands for the network.
"""

import os
import socket
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import torch
from torch import Tensor

from shadowmetric.app.models.timm_backbone import PREFIX
from shadowmetric.app.models.wording import one_line
from shadowmetric.errors import ModelMistake

SECONDS = 2.0  # that a host is given to answer


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


@dataclass(frozen=True)
class PublishedWeights:
    """Whether published weights can be had."""

    reason: str | None  # why not; None if they can
    address: str  # where people find the file


@cache
def published_weights_of(name: str) -> PublishedWeights:
    """Return whether the published weights of a backbone are in a cache, or their host answers."""
    if name == "small_cnn":
        return PublishedWeights("it has none", "")
    if not name.startswith(PREFIX):
        from torchvision import models

        url = models.get_model_weights(name)["DEFAULT"].url
        cached = Path(torch.hub.get_dir(), "checkpoints", Path(urlsplit(url).path).name).is_file()
        return PublishedWeights(None if cached else why_unreachable(url), url)
    import timm
    from huggingface_hub import constants, try_to_load_from_cache

    known = timm.get_pretrained_cfg(name.removeprefix(PREFIX)) if timm.is_model(name.removeprefix(PREFIX)) else None
    if known is None or not known.hf_hub_id:
        return PublishedWeights("timm knows none by that name", "")
    address = f"{constants.ENDPOINT}/{known.hf_hub_id}"
    files = ("model.safetensors", "pytorch_model.bin")
    if any(isinstance(try_to_load_from_cache(known.hf_hub_id, file), str) for file in files):
        return PublishedWeights(None, address)
    if constants.HF_HUB_OFFLINE:
        return PublishedWeights("they are not in the cache, and HF_HUB_OFFLINE is set", address)
    return PublishedWeights(why_unreachable(address), address)


def why_unreachable(url: str, seconds: float = SECONDS) -> str | None:
    """Return why the host of an address, or the proxy in front of it, does not answer; None if it does."""
    proxy = next((os.environ[name] for name in ("HTTPS_PROXY", "https_proxy") if os.environ.get(name)), None)
    place = urlsplit(proxy if proxy and "://" in proxy else f"http://{proxy}" if proxy else url)
    host, port = place.hostname or "", place.port or (80 if place.scheme == "http" else 443)
    outcome: list[str | None] = [f"{host} does not answer within {seconds:g} s"]

    def knock() -> None:
        try:
            socket.create_connection((host, port), timeout=seconds).close()
            outcome[0] = None
        except OSError as error:
            outcome[0] = f"{host} cannot be reached: {error.strerror or error}"

    knocking = threading.Thread(target=knock, daemon=True)  # looking a name up has no limit of its own
    knocking.start()
    knocking.join(seconds)
    return outcome[0]
