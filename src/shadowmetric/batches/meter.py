"""How much memory this process holds, now and at its highest.

On a CPU: resident memory, as `top` shows it, libraries included. The kernel keeps the highest mark (VmHWM); writing 5
to /proc/self/clear_refs lowers it to the present. Free memory that C's allocator holds back is given back first, else
a step would hide in it. Where there is no /proc, nothing is known (None).
On a GPU: what torch's allocator has given out, which is exact, without its cache and without CUDA's own context.
"""

import contextlib
import ctypes
from collections.abc import Callable
from pathlib import Path

import torch

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")
LOWER_THE_MARK = "5"
CPU = torch.device("cpu")
MMAP_THRESHOLD = -3  # of mallopt
LARGE = 2**18


def held_bytes(device: torch.device = CPU) -> int | None:
    """Return the bytes that are held now; None where it can't be told."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    _return_free_memory()
    return _status_bytes("VmRSS")


def peak_bytes(device: torch.device = CPU) -> int | None:
    """Return the most that was held at once, since the start or since the mark was lowered."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return _status_bytes("VmHWM")


def peak_extra_bytes(action: Callable[[], object], device: torch.device = CPU) -> int | None:
    """Run the action; return by how much held memory rose at its peak, or None where it can't be told."""
    before = held_bytes(device)
    if before is None or not _lower_mark(device):
        action()
        return None
    action()
    peak = peak_bytes(device)
    return None if peak is None else max(peak - before, 0)


def give_back_at_once() -> None:
    """Let C's allocator return every block of LARGE bytes when it is freed, for the rest of this process.

    By itself it keeps freed blocks of up to 32 MB for later: a run of logical batches added 218 MB to what it held
    before, and 129 with this. The price is that new blocks must be mapped again.
    """
    _call_allocator("mallopt", MMAP_THRESHOLD, LARGE)


def _lower_mark(device: torch.device) -> bool:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return True
    try:
        CLEAR_REFS.write_text(LOWER_THE_MARK)
    except OSError:
        return False
    return True


def _status_bytes(field: str) -> int | None:
    try:
        lines = STATUS.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    return None


def _return_free_memory() -> None:
    _call_allocator("malloc_trim", 0)


def _call_allocator(name: str, *numbers: int) -> None:
    """Call a function of C's allocator, where it has it: glibc does, other libraries do not."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        getattr(ctypes.CDLL(None), name)(*numbers)
