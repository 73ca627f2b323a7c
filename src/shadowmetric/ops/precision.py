"""Products in the type of their numbers, whatever autocast would make of them."""

import contextlib
from contextlib import AbstractContextManager

import torch


def full_precision(device: torch.device) -> AbstractContextManager:
    """Return a context without autocast, and nothing where it is off already."""
    if torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return contextlib.nullcontext()
