"""Several processes of torch.distributed: which rows each takes, and rows gathered from all, with a gradient.

    share(10, rank, 3)     rows 0-3, 4-6, 7-9: consecutive, in rank order, as even as it goes
    gathered(rows)         the rows of rank 0, then those of rank 1, ...: the same tensor on every rank

Backward of `gathered`: each rank has a gradient of all rows, from what it computed with them. A row's gradient is the
sum over the ranks, and goes to the rank that the row came from.

Traffic of n rows of D numbers in R ranks: each rank receives (R - 1) / R n D numbers forward and as many backward.
Without a process group everything is as with one rank, and nothing is sent. Memory: n x D numbers.
"""

import atexit
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor


class Ranks(NamedTuple):
    """Which of how many processes this is."""

    rank: int = 0
    ranks: int = 1


class Gathered(NamedTuple):
    """The rows of all ranks, and the place of the first of one's own."""

    rows: Tensor
    first: int


def ranks_here() -> Ranks:
    """Return which of how many processes this is; 0 of 1 without a process group."""
    if not (dist.is_available() and dist.is_initialized()):
        return Ranks()
    return Ranks(dist.get_rank(), dist.get_world_size())


def share(count: int, rank: int, ranks: int, multiple: int = 1) -> range:
    """Return the consecutive rows of a rank; cut between groups of `multiple` rows if each rank then has some."""
    groups = len(cut(count, multiple)) if multiple > 1 else count
    multiple, groups = (multiple, groups) if groups >= ranks else (1, count)
    each, more = divmod(groups, ranks)
    first = rank * each + min(rank, more)
    last = first + each + (rank < more)
    return range(first * multiple, count if last == groups else last * multiple)


def cut(count: int, size: int) -> list[slice]:
    """Return consecutive pieces of so many rows; one that would be left alone joins the last piece."""
    stops = [*range(size, count - 1 if size > 1 else count, size), count]
    return [slice(start, stop) for start, stop in zip([0, *stops], stops, strict=False)]


def gather_rows(rows: Tensor, sizes: list[int] | None = None) -> Gathered:
    """Return the rows of all ranks in their order; each rank may have another number of them, but at least one.

    sizes: how many rows each rank has, if that is known; else it is asked for.
    """
    rank, ranks = ranks_here()
    if ranks == 1:
        return Gathered(rows, 0)
    sizes = row_counts(len(rows), rows.device) if sizes is None else sizes
    if 0 in sizes:
        raise ValueError(f"rank {sizes.index(0)} has no rows; give each of the {ranks} ranks at least one.")
    return Gathered(_Gather.apply(rows, sizes), sum(sizes[:rank]))  # pyright: ignore[reportArgumentType]


def row_counts(rows: int, device: torch.device) -> list[int]:
    """Return how many rows each rank has."""
    counts = torch.empty(ranks_here().ranks, dtype=torch.int64, device=device)
    dist.all_gather_into_tensor(counts, torch.tensor([rows], device=device))
    return counts.tolist()


def sum_over_ranks(values: Tensor) -> Tensor:
    """Return the sum over all ranks, without a gradient."""
    if ranks_here().ranks == 1:
        return values.detach()
    total = values.detach().clone()
    dist.all_reduce(total)
    return total


def broadcast_tensors(tensors: Iterable[Tensor]) -> None:
    """Give every rank the values of the first one's tensors, in place."""
    if ranks_here().ranks > 1:
        for tensor in tensors:
            dist.broadcast(tensor.data, 0)


def leave_group() -> None:
    """Leave the process group, if there is one: a thread of gloo that outlives Python may abort the process."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


@cache
def leave_group_at_exit() -> None:
    """Leave the process group before Python ends; not after an error, when other ranks may wait for this one."""
    atexit.register(lambda: None if hasattr(sys, "last_value") else leave_group())


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int]) -> Tensor:
        ctx.sizes = sizes
        padded = rows.new_zeros(max(sizes), *rows.shape[1:])
        padded[: len(rows)] = rows.detach()
        buffers = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(buffers, padded)
        return torch.cat([part[:size] for part, size in zip(buffers, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        wide = gradient.to(torch.promote_types(gradient.dtype, torch.float32))  # half precision sums in float32
        parts = [part.contiguous() for part in wide.split(ctx.sizes)]
        own = torch.empty_like(parts[ranks_here().rank])
        try:
            dist.reduce_scatter(own, parts)
        except RuntimeError as error:
            if "does not support reduce_scatter" not in str(error):
                raise
            own = sum_over_ranks(wide).split(ctx.sizes)[ranks_here().rank]  # gloo of older torch; every rank comes here
        return own.to(gradient.dtype), None
