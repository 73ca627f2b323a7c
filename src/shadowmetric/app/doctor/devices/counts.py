"""What a step asks of an accelerator: how many kernels and waits, and which lines asked."""

from dataclasses import dataclass, field

from torch import Tensor


class HostRead(RuntimeError):
    """A step of shapes only asked for a value."""


@dataclass(frozen=True)
class Place:
    """Something that a GPU would be asked, and the line that asked. times: waits inside of it."""

    what: str
    line: str
    phase: str  # forward or backward
    times: int = 1


@dataclass
class Counts:
    """What a step asked of the device; value and gradients are on the CPU, None where only shapes were asked for."""

    kernels: int = 0
    waits: int = 0
    largest_bytes: int = 0
    wait_places: list[Place] = field(default_factory=list)
    mixes: list[Place] = field(default_factory=list)
    by_name: dict[str, int] = field(default_factory=dict)  # kernels by operation
    value: Tensor | None = None
    gradients: tuple[Tensor | None, ...] = ()
