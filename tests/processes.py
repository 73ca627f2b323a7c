"""Run a function in several processes that form a gloo group, and collect what each returns."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as processes


def run_ranks(groups: tuple[int, ...], work: Callable[..., Any], *given: Any) -> dict[int, list[Any]]:
    """Return what work(*given) returns on each rank of each group: {ranks: [of rank 0, of rank 1, ...]}.

    The processes of the largest group form the smaller ones too, one after the other: starting them takes longest.
    work must be importable, and return what torch.save can write.
    """
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(_begin, (groups, folder, work, given), nprocs=max(groups))
        return {
            ranks: [torch.load(Path(folder) / f"{ranks}-{rank}.pt", weights_only=False) for rank in range(ranks)]
            for ranks in groups
        }


def _begin(rank: int, groups: tuple[int, ...], folder: str, work: Callable[..., Any], given: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    for ranks in groups:
        if rank < ranks:
            dist.init_process_group("gloo", init_method=f"file://{folder}/{ranks}", rank=rank, world_size=ranks)
            torch.save(work(*given), Path(folder) / f"{ranks}-{rank}.pt")
            dist.barrier()
            dist.destroy_process_group()
