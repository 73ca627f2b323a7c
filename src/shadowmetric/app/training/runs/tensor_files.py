"""Tensors on disk: written so that a full disk is an OSError, as for any other file; read so that damage is one line.

torch and safetensors have errors of their own for both, in which the system's reason is hidden.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

NUMBER = re.compile(r"\(os error (\d+)\)")  # how safetensors, which is Rust, ends what the system said
MOST_WORDS = 200  # letters of a library's error that may have many lines


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors by name."""
    try:
        save_file({name: value.contiguous() for name, value in tensors.items()}, path)
    except SafetensorError as error:
        if (number := NUMBER.search(str(error))) is None:
            raise
        raise system_error(int(number[1]), path) from None


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file by name, or raise ValueError."""
    try:
        return load_file(path)
    except OSError:
        raise
    except Exception as error:  # whatever a reader makes of damaged bytes
        raise ValueError(first_line(error)) from None


def save_state(path: Path, state: Any) -> None:
    """Write tensors and plain values in torch's format."""
    with path.open("wb") as file:  # torch's own writer would hide why it failed
        try:
            torch.save(state, file)
        except RuntimeError as error:
            if (reason := system_error_behind(error)) is None:
                raise
            raise system_error(reason.errno or 0, path) from None


def load_state(path: Path) -> Any:
    """Return what `save_state` wrote, or raise ValueError; nothing in the file is executed."""
    try:
        return torch.load(path, weights_only=True, map_location="cpu")
    except OSError:
        raise
    except Exception as error:  # whatever a reader makes of damaged bytes
        raise ValueError(first_line(error)) from None


def system_error_behind(error: BaseException | None) -> OSError | None:
    """Return the error of the system that led to one of a library."""
    while error is not None and not (isinstance(error, OSError) and error.errno):
        error = error.__cause__ or error.__context__
    return error


def system_error(number: int, path: Path) -> OSError:
    """Return the error of the system with this number."""
    return OSError(number, os.strerror(number), str(path))


def first_line(error: BaseException) -> str:
    """Return the first words of an error that may have many."""
    return " ".join(str(error).split())[:MOST_WORDS] or type(error).__name__
