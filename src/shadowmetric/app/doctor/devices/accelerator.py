"""The accelerator of this machine, if it has one: its name, waiting for it, and its host waits as torch reports them.

Torch reports waits on CUDA alone (`torch.cuda.set_sync_debug_mode`): each is a warning, with the line that asked.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from shadowmetric.app.doctor.devices.calling_line import short_path

TYPES = ("cuda", "mps", "xpu")
SYNCHRONIZING = "called a synchronizing CUDA operation"


def find_accelerator() -> torch.device | None:
    """Return the accelerator that torch can use here, or None."""
    for name in TYPES:
        if backend(name) is not None and backend(name).is_available():
            return torch.device(name)
    newer: Any = getattr(torch, "accelerator", None)  # other vendors', by torch 2.6 and later
    return newer.current_accelerator() if newer is not None and newer.is_available() else None


def backend(name: str) -> Any:
    """Return torch's module for a type of device, or None."""
    return getattr(torch.backends if name == "mps" else torch, name, None)


def device_name(device: torch.device) -> str:
    """Return what its maker calls the device, or its type."""
    module: Any = getattr(torch, device.type, None)
    return module.get_device_name(device) if hasattr(module, "get_device_name") else device.type


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all that it was asked."""
    getattr(torch, device.type).synchronize()


@contextmanager
def record_waits(device: torch.device) -> Iterator[list[str] | None]:
    """Yield a list that in the end has file:line of each host wait; None where torch cannot tell."""
    if device.type != "cuda":
        yield None
        return
    lines: list[str] = []
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield lines
        finally:
            torch.cuda.set_sync_debug_mode(before)
    lines += [f"{short_path(Path(one.filename))}:{one.lineno}" for one in caught if SYNCHRONIZING in str(one.message)]
