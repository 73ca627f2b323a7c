"""One evaluation by several processes: which rows a rank measures, and what all ranks found, the same on each.

Naive program: every rank measures everything. Here a rank has a part of the queries, consecutive ones, and meets the
whole gallery with them; the values of the parts are joined in rank order. A rank for which no query is left measures
the last one as well, and what it finds is dropped, so that all ranks send as often as each other.

Ranks that disagree would wait for each other for ever, so they compare first what they were given, in words and
checksums (`agreed`). Without a process group, or with one rank, nothing is sent.

Traffic: a few numbers for each query and measure. Values go by the device that the process group can send from.
"""

import hashlib
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from shadowmetric.ops.ranks import Ranks, gather_rows, ranks_here, share, sum_over_ranks

T = TypeVar("T")
REFUSED = "refused"


def ranks_of(shared: bool) -> Ranks:
    """Return which of how many ranks this is, 0 of 1 if nothing is shared."""
    return ranks_here() if shared else Ranks()


class Part(NamedTuple):
    """The rows that this rank measures."""

    rows: slice
    all_rows: int  # how many the ranks measure together
    alone: bool

    @classmethod
    def of(cls, count: int, shared: bool) -> "Part":
        """Return this rank's part of so many rows, never an empty one."""
        rank, ranks = ranks_of(shared)
        mine = share(count, rank, ranks) or range(count - 1, count)
        return cls(slice(mine.start, mine.stop), count, ranks == 1)

    def gather(self, values: Tensor) -> Tensor:
        """Return the values of all rows, from those of this rank's rows."""
        if self.alone:
            return values
        return gather_rows(_sendable(values)).rows[: self.all_rows].to(values.device)


def total(values: Tensor, shared: bool) -> Tensor:
    """Return the sum over the ranks."""
    return values if ranks_of(shared).ranks == 1 else sum_over_ranks(_sendable(values)).to(values.device)


def broadcast_from_rank0(make: Callable[[], T], shared: bool) -> T:
    """Return what rank 0 makes; the others wait for it."""
    rank, ranks = ranks_of(shared)
    if ranks == 1:
        return make()
    payload = [make() if rank == 0 else None]
    dist.broadcast_object_list(payload, src=0)
    return payload[0]  # pyright: ignore[reportReturnType]


def agree_on(make: Callable[[], T], words: Callable[[T], dict[str, str]], shared: bool) -> T:
    """Return what is made; if the ranks' words for it differ, or one cannot make it, say so on every rank."""
    _, ranks = ranks_of(shared)
    if ranks == 1:
        return make()
    result = mistake = None
    try:
        result = make()
        mine = words(result)
    except Exception as error:  # whatever it is, the others must not wait
        mistake, mine = error, {REFUSED: str(error)}
    reports: list[dict[str, str]] = [{}] * ranks
    dist.all_gather_object(reports, mine)
    if mistake is not None:
        raise mistake
    _compare(reports)
    return result  # pyright: ignore[reportReturnType]


def _compare(reports: list[dict[str, str]]) -> None:
    for rank, theirs in enumerate(reports):
        if REFUSED in theirs:
            raise ValueError(f"rank {rank} refuses what it was given: {theirs[REFUSED]}")
    for rank, theirs in enumerate(reports):
        for name, value in reports[0].items():
            if theirs[name] != value:
                here, there = f"{value} on rank 0", f"{theirs[name]} on rank {rank}"
                raise ValueError(f"{name}: {here}, {there}; with shared=True give every rank the same.")


def checksum(labels: Tensor) -> str:
    """Return words that other labels, or the same in another order, would not have."""
    digits = hashlib.blake2b(labels.cpu().contiguous().numpy().data, digest_size=8).hexdigest()
    return f"checksum {digits}"


def _sendable(values: Tensor) -> Tensor:
    """Return the values on a device that the process group sends from; NCCL knows no CPU."""
    able = [pair.split(":")[0] for pair in dist.get_backend_config().split(",")]
    return values if values.device.type in able else values.to(torch.device(able[0]))
