"""Runs of a plan, several at a time, each in a process and a folder of its own.

A cell is one training: a name and its settings. Cells that are finished are not run again, and one that was stopped
goes on where it was, so that a plan can be repeated until it is whole. Every process has the same number of threads,
since sums in another order round differently.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from shadowmetric.mistakes import Interrupted
from shadowmetric.training.interrupt import Stop
from shadowmetric.training.run import Run
from shadowmetric.training.settings import TrainSettings

Tell = Callable[[float, str], None]  # told the share of the plan that is done, and what is under way
POLL = 0.5  # seconds


@dataclass(frozen=True)
class Cell:
    """One training of a plan."""

    folder: Path
    settings: TrainSettings

    @property
    def run(self) -> Run:
        """Return its run."""
        return Run(self.folder)


def run_cells(cells: Sequence[Cell], jobs: int, tell: Tell | None = None) -> None:
    """Run what is not finished. Ctrl-C lets every process save its run, and is then raised as Interrupted."""
    waiting = [cell for cell in cells if cell.run.scores() is None]
    if not waiting:
        return
    threads = max(1, cores() // jobs)  # of the jobs asked for, so that the last cell has what the first had
    jobs = min(jobs, len(waiting))
    context = multiprocessing.get_context("spawn")
    with Stop() as stop, ProcessPoolExecutor(jobs, context, _begin, (threads,)) as pool:
        todo: set[Future[None]] = {pool.submit(run_cell, cell) for cell in waiting}
        while todo:
            done, todo = wait(todo, timeout=POLL, return_when=FIRST_COMPLETED)
            if stop.asked:
                for future in todo:
                    future.cancel()
                for process in (pool._processes or {}).values():  # Ctrl-C reaches them by itself, SIGTERM does not
                    os.kill(process.pid or 0, signal.SIGINT)
                wait(todo)
                raise Interrupted
            for future in done:
                future.result()
            if tell is not None:
                tell(*progress(cells))


def run_cell(cell: Cell) -> None:
    """Train a cell, or go on with it."""
    from shadowmetric.training.loop import train

    train(cell.settings, cell.folder, resume=cell.run.settings_file.exists())


def progress(cells: Sequence[Cell]) -> tuple[float, str]:
    """Return the share of all epochs that is done, from the journals, and which cells are under way."""
    shares, names = [], []
    for cell in cells:
        if cell.run.scores_file.exists():
            shares.append(1.0)
        elif cell.run.settings_file.exists():
            epochs = cell.run.settings().epochs or 1
            shares.append(len(cell.run.journal()) / (epochs + 1))
            names.append(cell.folder.name)
        else:
            shares.append(0.0)
    return sum(shares) / len(shares), ", ".join(names)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _begin(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)
