"""Runs of a plan, several at a time, each in a process and a folder of its own.

A cell is one training: a name and its settings. Cells that are finished are not run again, and one that was stopped
goes on where it was, so that a plan can be repeated until it is whole. Every process has the same number of threads,
since sums in another order round differently.

Several commands, on one machine or on many that see one folder, may run the same plan: a cell is trained by whoever
holds the lock of its file, which the system takes back when that process ends, however it ends. A cell that is trained
elsewhere is waited for, and taken over if its process dies.

While a worker trains nothing is sent to it but the wish to end. So whatever can be read of its pipe means that it is to
save its run and end: the word for it, or the end of the pipe, which the system closes when the process that started the
worker is gone, killed or not. No worker trains on alone.
"""

import contextlib
import multiprocessing
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

from filelock import FileLock, Timeout

from shadowmetric.app.training.interrupt import Stop
from shadowmetric.app.training.runs.origin import cores
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings
from shadowmetric.errors import Interrupted, Mistake, Stopped
from shadowmetric.progress import Report

POLL = 0.5  # seconds
RETRY = 5.0  # seconds after which a cell that was locked is tried again
ELSEWHERE = "trained by another process"


@dataclass(frozen=True)
class Cell:
    """One training of a plan."""

    folder: Path
    settings: TrainSettings
    bed: str = ""  # what tells it from cells of the same name in other folders

    @property
    def name(self) -> str:
        """Return what people call it."""
        return f"{self.bed}/{self.folder.name}" if self.bed else self.folder.name

    @property
    def lock(self) -> FileLock:
        """Return what its trainer holds."""
        return FileLock(ensure_folder(self.folder.parent) / f".{self.folder.name}.lock")

    @property
    def run(self) -> Run:
        """Return its run."""
        return Run(self.folder)


class Worker:
    """A process that trains one cell after another."""

    def __init__(self, threads: int):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, threads))
        self.process.start()
        theirs.close()
        self.cell: Cell | None = None
        self.is_to_end = False

    def give(self, cell: Cell) -> None:
        """Let it train a cell."""
        self.cell = cell
        with contextlib.suppress(OSError):  # it has just died, as `answer` will say
            self.pipe.send(cell)

    def answer(self) -> str | None:
        """Return why its cell is not finished, if it is not."""
        self.cell = None
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            return f"its process ended with code {self.process.exitcode}"

    def ask_to_end(self) -> None:
        """Let it save what it trains, and end."""
        if not self.is_to_end:
            self.is_to_end = True
            with contextlib.suppress(OSError):
                self.pipe.send(None)

    def end(self) -> None:
        """Wait until it has ended."""
        self.ask_to_end()
        self.process.join()


def run_cells(cells: Sequence[Cell], jobs: int, tell: Report | None = None) -> dict[str, str]:
    """Run what is not finished; return why each cell failed that did, by its name.

    Ctrl-C lets every process save its run, and is then raised as Interrupted.
    """
    waiting = [cell for cell in cells if cell.run.scores() is None]
    if not waiting:
        return {}
    threads = max(1, cores() // jobs)  # of the jobs asked for, so that the last cell has what the first had
    failures: dict[str, str] = {}
    elsewhere: list[Cell] = []
    retried = time.monotonic()
    with Stop() as stop:
        with signals_ignored():  # by the workers, until they have set up how they hear them
            workers = [Worker(threads) for _ in range(min(jobs, len(waiting)))]
        try:
            while True:
                if stop.asked:
                    for worker in workers:
                        worker.ask_to_end()
                idle = [worker for worker in workers if worker.cell is None and worker.process.is_alive()]
                for worker, cell in zip(idle, [] if stop.asked else waiting[: len(idle)], strict=False):
                    worker.give(waiting.pop(waiting.index(cell)))
                busy = {worker.pipe: worker for worker in workers if worker.cell is not None}
                if not busy and (stop.asked or not elsewhere or not idle):
                    break
                if not busy:
                    time.sleep(POLL)
                if elsewhere and time.monotonic() - retried > RETRY:
                    waiting += [cell for cell in elsewhere if not cell.run.scores_file.exists()]
                    elsewhere, retried = [], time.monotonic()
                for pipe in wait(list(busy), timeout=POLL):
                    worker = busy[pipe]  # pyright: ignore[reportArgumentType]
                    cell = worker.cell
                    reason = worker.answer()
                    if cell is not None and reason == ELSEWHERE:
                        elsewhere.append(cell)
                    elif cell is not None and reason is not None:
                        failures[cell.name] = reason
                if tell is not None:
                    tell(*progress(cells))
        finally:
            for worker in workers:
                worker.ask_to_end()
            for worker in workers:
                worker.end()
        if stop.asked:
            raise Interrupted
    return failures | {cell.name: "no process was left to train it" for cell in [*waiting, *elsewhere]}


def work(pipe: Connection, threads: int) -> None:
    """Train the cells that come through a pipe, and say of each whether it is finished."""
    import torch

    torch.set_num_threads(threads)
    with contextlib.suppress(EOFError, OSError):  # whoever started this process is gone, and nobody waits for answers
        while (cell := pipe.recv()) is not None:
            pipe.send(run_cell(cell, Stop(also=lambda: has_word(pipe))))


def has_word(pipe: Connection) -> bool:
    """Return whether something can be read of a pipe: a word, or its end."""
    try:
        return pipe.poll()
    except OSError:  # Windows says the end so
        return True


def run_cell(cell: Cell, stop: Stop) -> str | None:
    """Train a cell, or go on with it; return why it is not finished, if it is not."""
    from shadowmetric.app.training.loop import train

    try:
        with cell.lock.acquire(timeout=0):
            if cell.run.scores() is not None:  # finished by another process in the meantime
                return None
            begun = cell.run.settings_file.exists()  # maybe on another machine
            train(cell.settings, cell.folder, resume=begun, here=cell.settings, stop=stop)
    except Timeout:
        return ELSEWHERE
    except (Interrupted, KeyboardInterrupt):
        return "stopped"
    except (Mistake, Stopped) as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return None


@contextlib.contextmanager
def signals_ignored() -> Iterator[None]:
    """Let processes that are started here ignore Ctrl-C, as long as they do not say otherwise."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def progress(cells: Sequence[Cell]) -> tuple[str, float]:
    """Return which cells are under way, and the share of all epochs that is done, from the journals."""
    shares, names = [], []
    for cell in cells:
        if cell.run.scores_file.exists():
            shares.append(1.0)
        elif cell.run.settings_file.exists():
            epochs = cell.run.settings().epochs or 1
            shares.append(len(cell.run.journal()) / (epochs + 1))
            names.append(cell.name)
        else:
            shares.append(0.0)
    return ", ".join(names), sum(shares) / len(shares)


def ensure_folder(folder: Path) -> Path:
    """Return a folder that is there."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder
