"""Weights in a file, as tensors by name.

`.safetensors` holds nothing but tensors. Anything else is read as torch's own format with weights_only, which runs no
code: a pickle that asks for more than tensors is refused, and none of it happens.

Training programs wrap their state dicts: {"state_dict": ...}, {"model": ...}; and their names: `module.conv1.weight`
(many processes), `_orig_mod.` (compiled), `model.`. Those wraps come off here; what the names mean is match.py.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shadowmetric.app.models.wording import first_few, one_line
from shadowmetric.errors import ModelMistake

WRAPS = ("state_dict", "model_state_dict", "model")
PREFIXES = ("module.", "_orig_mod.", "model.")


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file on the CPU, without wraps."""
    if not path.is_file():
        raise ModelMistake(f"weights {path} is not a file; give a .safetensors or a torch file, or `pretrained`.")
    return plain_names(unwrap_checkpoint(_read(path), path))


def _read(path: Path) -> Any:
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a reader makes of damaged bytes
        match = re.search(r"GLOBAL (\S+)", str(error))
        if match:
            raise ModelMistake(
                f"weights {path} asks for {match[1]} to be loaded, and a pickle can run code, so it is not read; "
                "save the state dict alone, best with safetensors."
            ) from None
        raise ModelMistake(f"weights {path} cannot be read as weights ({one_line(error)}).") from None


def unwrap_checkpoint(checkpoint: Any, path: Path) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint, from inside the wraps that training programs use."""
    while isinstance(checkpoint, Mapping):
        inner = next((checkpoint[wrap] for wrap in WRAPS if isinstance(checkpoint.get(wrap), Mapping)), None)
        if inner is None:
            break
        checkpoint = inner
    tensors = {}
    if isinstance(checkpoint, Mapping):
        tensors = {
            name: value for name, value in checkpoint.items() if isinstance(name, str) and isinstance(value, Tensor)
        }
    if not tensors:
        held = (
            first_few([str(name) for name in checkpoint])
            if isinstance(checkpoint, Mapping)
            else type(checkpoint).__name__
        )
        raise ModelMistake(f"weights {path} holds no tensors by name ({held or 'nothing'}); give a state dict.")
    return tensors


def plain_names(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors without prefixes that all their names share, in whatever order they were put on."""
    while shared := next((prefix for prefix in PREFIXES if all(name.startswith(prefix) for name in tensors)), None):
        tensors = {name.removeprefix(shared): value for name, value in tensors.items()}
    return tensors
