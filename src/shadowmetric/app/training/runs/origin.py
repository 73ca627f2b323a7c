"""Where a figure comes from: the commit of the program, its libraries, the machine. Names no host, user or folder."""

import importlib.metadata
import os
import platform
import subprocess
from functools import cache
from pathlib import Path

import torch

CPU_FILE = Path("/proc/cpuinfo")
DIGITS = 12  # of a commit


@cache
def origin() -> dict[str, str]:
    """Return what is known, as words."""
    return {
        "version": importlib.metadata.version("shadowmetric"),
        "commit": commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": machine(),
    }


def machine() -> str:
    """Return the processor and the GPU in words."""
    gpu = f", {torch.cuda.get_device_name(0)}" if torch.cuda.is_available() else ", no GPU"
    return f"{cpu_name()}, {cores()} cores{gpu}"


def commit() -> str:
    """Return the commit that holds this file, with a + if files differ from it; "unknown" if none does.

    A package that is installed inside somebody's own repository is no part of it.
    """
    here = Path(__file__).parent
    try:
        _, head, changed = (
            subprocess.run(["git", "-C", str(here), *words], capture_output=True, text=True, check=True, timeout=10)
            for words in (
                ["ls-files", "--error-unmatch", "--", Path(__file__).name],
                ["rev-parse", "HEAD"],
                ["status", "--porcelain", "--untracked-files=no", "--", str(here.parent)],
            )
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return head.stdout.strip()[:DIGITS] + ("+" if changed.stdout.strip() else "")


def cpu_name() -> str:
    """Return the processor's name as the system gives it."""
    try:
        lines = CPU_FILE.read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine() or "unknown"


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
