"""What a run finds on this machine, and what of it will give trouble: facts for people who ask for help.

Nothing here names the machine, its user or a folder of theirs, but for the data root; a home folder is written as ~.
"""

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from packaging.requirements import Requirement

from shadowmetric.app.data.root import data_root
from shadowmetric.app.training.runs.origin import cpu_name
from shadowmetric.batches import meter

COMMANDS, EVERY = "app", "all"  # extras: what commands need, and all others together
PACKAGES = ("shadowmetric", "torch", "accelerate", "torchvision", "timm")
SHARED_MEMORY = Path("/dev/shm")
MEMORY_FILE = Path("/proc/meminfo")
CONTAINER_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
NVIDIA_DRIVER = Path("/dev/nvidiactl")
ENOUGH_SHARED_MEMORY = 2**30


class Trouble(NamedTuple):
    """Something that will go wrong, and what to do about it; both are parts of one sentence."""

    what: str
    remedy: str


class Device(NamedTuple):
    """A GPU, and its memory if that is known."""

    name: str
    bytes: int | None


@dataclass(frozen=True)
class Environment:
    """Facts of this machine and process. None is for what cannot be told here."""

    python: str
    system: str
    packages: dict[str, str | None]  # of what is always needed
    extras: dict[str, dict[str, str | None]]  # by the name that pip knows
    unmet: tuple[str, ...]  # requirements that what is installed does not meet
    processor: str
    cores: int  # that this process may use
    threads: int
    threads_set: bool  # by OMP_NUM_THREADS
    memory: int | None
    memory_available: int | None
    memory_limit: int | None  # of the container
    held: int | None  # by this process
    can_measure_memory: bool
    shared_memory: int | None
    cuda: str | None  # that torch is built for
    devices: tuple[Device, ...]
    driver_without_device: bool
    mps: bool
    backends: tuple[str, ...]  # of torch.distributed
    data_root: str
    data_root_exists: bool

    def as_dict(self) -> dict[str, Any]:
        """Return the facts in plain Python."""
        return asdict(self) | {"devices": [device._asdict() for device in self.devices]}

    def troubles(self, ranks: int = 1) -> list[Trouble]:
        """Return what will go wrong; ranks: processes of a training."""
        troubles = [
            Trouble(f"{what} is needed", f"install it with pip install -U '{what.split(',')[0]}'")
            for what in self.unmet
        ]
        if ranks > 1 and not self.threads_set and ranks * self.threads > self.cores:
            each = max(1, self.cores // ranks)
            troubles.append(
                Trouble(
                    f"OMP_NUM_THREADS is not set, so {ranks} ranks would use {self.threads} threads each on "
                    f"{self.cores} core(s)",
                    f"export OMP_NUM_THREADS={each}",
                )
            )
        if "gloo" not in self.backends:
            troubles.append(
                Trouble("this torch has no gloo, so ranks cannot share a CPU", "install torch from pytorch.org")
            )
        if self.shared_memory is not None and self.shared_memory < ENOUGH_SHARED_MEMORY:
            troubles.append(
                Trouble(
                    f"{SHARED_MEMORY} has only {self.shared_memory / 1e6:.0f} MB for images from worker processes",
                    "give the container --shm-size=2g, or train with --workers 0",
                )
            )
        if not self.can_measure_memory:
            troubles.append(
                Trouble(
                    "this system does not say how much memory a process holds, so --memory-budget cannot predict",
                    "set --micro-batch instead",
                )
            )
        if self.driver_without_device:
            built = "without CUDA" if self.cuda is None else f"for CUDA {self.cuda}"
            troubles.append(
                Trouble(
                    f"there is an NVIDIA driver, but torch, built {built}, sees no GPU",
                    "compare with nvidia-smi, look at CUDA_VISIBLE_DEVICES, and install the torch for that driver",
                )
            )
        return troubles


def environment() -> Environment:
    """Look around."""
    memory = memory_lines()
    root = data_root()
    seen = torch.cuda.is_available()
    return Environment(
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        packages={name: version_of(name) for name in PACKAGES},
        extras=extras(),
        unmet=tuple(map(str, unmet(list_requirements()))),
        processor=cpu_name(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        threads_set="OMP_NUM_THREADS" in os.environ,
        memory=memory.get("MemTotal"),
        memory_available=memory.get("MemAvailable"),
        memory_limit=container_limit(memory.get("MemTotal")),
        held=meter.held_bytes(),
        can_measure_memory=os.access(meter.STATUS, os.R_OK) and os.access(meter.CLEAR_REFS, os.W_OK),
        shared_memory=shutil.disk_usage(SHARED_MEMORY).total if SHARED_MEMORY.is_dir() else None,
        cuda=torch.version.cuda,
        devices=tuple(gpu(number) for number in range(torch.cuda.device_count())) if seen else (),
        driver_without_device=NVIDIA_DRIVER.exists() and not seen,
        mps=torch.backends.mps.is_available(),
        backends=backends(),
        data_root=without_home(root),
        data_root_exists=root.is_dir(),
    )


def list_requirements(extra: str = "") -> list[Requirement]:
    """Return what commands require, or what one of the extras adds to that."""
    requirements = [Requirement(text) for text in importlib.metadata.requires("shadowmetric") or []]
    always = [one for one in requirements if asked_for(one, "") or asked_for(one, COMMANDS)]
    if not extra:
        return always
    known = {one.name for one in always}
    return [one for one in requirements if asked_for(one, extra) and one.name not in known]


def asked_for(requirement: Requirement, extra: str) -> bool:
    """Return whether a requirement is one of an extra, or of the library itself if that is empty."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def unmet(requirements: list[Requirement]) -> list[Requirement]:
    """Return those that are missing, or there in another version."""
    versions = {one.name: version_of(one.name) for one in requirements}
    return [
        Requirement(f"{one.name}{one.specifier}")
        for one in requirements
        if (version := versions[one.name]) is None or not one.specifier.contains(version, prereleases=True)
    ]


def extras() -> dict[str, dict[str, str | None]]:
    """Return the versions of the packages of each extra; None for what is not installed."""
    names = importlib.metadata.metadata("shadowmetric").get_all("Provides-Extra") or []
    some = [extra for extra in names if extra not in (COMMANDS, EVERY)]
    return {extra: {one.name: version_of(one.name) for one in list_requirements(extra)} for extra in some}


def version_of(package: str) -> str | None:
    """Return the version of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def memory_lines() -> Mapping[str, int]:
    """Return the bytes of each line of /proc/meminfo; nothing where there is none."""
    try:
        lines = [line.split() for line in MEMORY_FILE.read_text().splitlines()]
    except OSError:
        return {}
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) == 3 and words[2] == "kB"}


def container_limit(memory: int | None) -> int | None:
    """Return the bytes that this container may use, if it has a limit below the machine's memory."""
    for file in CONTAINER_LIMITS:
        try:
            limit = int(file.read_text())
        except (OSError, ValueError):  # not there, or "max"
            continue
        return limit if memory is None or limit < memory else None
    return None


def gpu(number: int) -> Device:
    """Return a GPU of CUDA."""
    properties = torch.cuda.get_device_properties(number)
    return Device(properties.name, properties.total_memory)


def backends() -> tuple[str, ...]:
    """Return the ways in which processes of torch.distributed can talk."""
    if not dist.is_available():
        return ()
    there = {"gloo": dist.is_gloo_available(), "nccl": dist.is_nccl_available(), "mpi": dist.is_mpi_available()}
    return tuple(name for name, yes in there.items() if yes)


def without_home(path: Path) -> str:
    """Return the path with ~ for the home folder."""
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)
