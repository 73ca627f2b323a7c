"""Several processes that form a gloo group, take the steps of `doctor_steps.py`, and leave what they gave in a folder.

A rank that raises writes a sentence and ends; the others are then ended too. A rank that waits for another gives up
after a time, and ends when the command is killed. So nothing hangs, and the first to fail is the one that is named.
"""

import contextlib
import logging
import os
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException, spawn

from shadowmetric.app.doctor.ranks.steps import take_steps
from shadowmetric.app.doctor.ranks.subject import Subject, describe_error, folder_on_path
from shadowmetric.app.training.interrupt import end_with_parent
from shadowmetric.errors import Mistake, Stopped
from shadowmetric.progress import Report

FORMS = ("gathered", "cached", "apart")


class Work(NamedTuple):
    """What each rank is told."""

    subjects: tuple[Subject, ...]
    equal_rows: tuple[bool, ...]
    ranks: int
    folder: str
    seconds: float


def run_ranks(work: Work, report: Report) -> None:
    """Start the ranks and wait until all are done; one that fails is named, and ends the others."""
    report(f"starting {work.ranks} process(es)", 0.0)
    context: Any = spawn(begin, (work,), nprocs=work.ranks, join=False, daemon=True)
    try:
        with without_warnings_of(spawn.__module__):
            while not context.join(timeout=0.1):
                done = len(list(Path(work.folder).glob("done-*")))
                total = work.ranks * (len(work.subjects) + 1)
                report("comparing" if done else f"starting {work.ranks} process(es)", done / total)
    except (ProcessRaisedException, ProcessExitedException) as error:
        raise Stopped(failure(Path(work.folder), error)) from None
    finally:
        for process in context.processes:
            if process.is_alive():
                process.terminate()
            process.join()


@contextlib.contextmanager
def without_warnings_of(module: str) -> Iterator[None]:
    """Let a module not tell what is told in a sentence anyway."""
    logger = logging.getLogger(module)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def failure(folder: Path, error: ProcessRaisedException | ProcessExitedException) -> str:
    """Say which rank failed first, and how."""
    reports = [(*file.read_text().split("\n", 1), file.stem) for file in folder.glob("error-*.txt")]
    if reports:
        _, sentence, stem = min(reports, key=lambda one: float(one[0]))
        return f"rank {stem.removeprefix('error-')} failed: {sentence}"
    return f"rank {error.error_index} ended without a word: {describe_error(error)}"


def begin(rank: int, work: Work) -> None:
    """Be a rank: take the steps of every loss, and leave what they gave in the folder."""
    end_with_parent()
    began = "starting"
    os.dup2(2, 1)  # what a loss prints must not get into the command's JSON
    torch.set_num_threads(1)
    folder = Path(work.folder)
    try:
        limit = timedelta(seconds=work.seconds)
        meeting = dist.FileStore(str(folder / "meeting"), work.ranks)  # pyright: ignore[reportPrivateImportUsage]
        meeting.set_timeout(limit)
        dist.init_process_group("gloo", store=meeting, rank=rank, world_size=work.ranks, timeout=limit)
        (folder / f"done-{rank}-start").touch()
        results = []
        with folder_on_path():
            for number, (subject, equal_rows) in enumerate(zip(work.subjects, work.equal_rows, strict=True)):
                forms = {}
                for form in FORMS:
                    began = f"{subject.name}, {form}"
                    forms[form] = take_steps(subject, form, equal_rows=equal_rows)
                results.append(forms)
                (folder / f"done-{rank}-{number}").touch()
        torch.save(results, folder / f"found-{rank}.pt")
        dist.barrier()
        dist.destroy_process_group()
    except Exception as error:
        why = f"{began}: {describe_error(error)}"
        if "timed out" in why.lower():
            why = f"{began}: waited {work.seconds:g} s for another in vain"
        elif isinstance(error, Mistake):
            why = str(error)
        (folder / f"error-{rank}.txt").write_text(f"{time.time()}\n{why}")
        sys.exit(1)
