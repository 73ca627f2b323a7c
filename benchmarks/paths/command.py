"""`python -m benchmarks paths`: kernels and host waits of a step, and its time on a CPU beside two others."""

import csv
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TextIO

from cyclopts import Parameter

from benchmarks.losses.plan import check_sizes
from benchmarks.paths.compile_times import COMPILED, measure_compile
from benchmarks.paths.paths import COLUMNS, measure_case
from benchmarks.run import Row
from benchmarks.settings import File, Flag, Names, Sizes, open_csv
from shadowmetric.app.doctor.devices.contenders import contender_names
from shadowmetric.app.doctor.devices.loss_steps import Case, cases
from shadowmetric.app.doctor.devices.times import use_threads
from shadowmetric.checks import check_choice
from shadowmetric.errors import Mistake
from shadowmetric.losses.catalogue import CONTROLS, LOSSES

SIZES = (32, 64, 128, 256, 512, 1024, 4096, 16384)
NAMES = tuple(name for name in LOSSES if name not in CONTROLS)
MINERS = ("semi_hard", "hard", "batch_hard", "all")
COMPILE_SIZE = 256


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PathsSettings:
    """Settings of `python -m benchmarks paths`."""

    sizes: Sizes = SIZES
    """Rows in a batch (S), one or several. Default: 32 64 128 256 512 1024 4096 16384."""
    losses: Names = ("shadow", "triplet", "multi_similarity")
    """Names as in `train`, or all. Default: shadow triplet multi_similarity."""
    miners: Names = MINERS[:3]
    """Of losses of triplets: semi_hard, hard, batch_hard, all. Default: the first three."""
    dim: int = 128
    """Numbers in a row (D)."""
    per_class: int = 4
    """Rows of each class in a batch."""
    rounds: int = 5
    """How often the contenders run in turn; the best step of all is shown. 0 counts and times nothing."""
    threads: int = 1
    """Threads of the CPU that torch may use."""
    compile: Flag = False
    """Also compile Shadow and Multi-Similarity by torch.compile, and time the first step and later ones."""
    csv: File = None
    """CSV file to write. Default: none."""


def paths(*, settings: PathsSettings | None = None) -> None:
    """Count what a step asks of a GPU, and time it on a CPU, beside a plain dense program and the peer.

    Kernels and host waits of forward and backward are counted on a pretended device: no GPU is needed, and none is
    timed. Times are this CPU's. The dense program is what one writes with an S×S matrix; pml is
    pytorch-metric-learning. The ratio is to the quicker of these two. What cannot be measured is a row with the reason.
    """
    from benchmarks.paths.table import compile_table, size_table
    from benchmarks.screen import BenchScreen

    settings = settings or PathsSettings()
    jobs = plan_cases(settings)
    screen = BenchScreen(steps(jobs), size_table)
    try:
        target = nullcontext() if settings.csv is None else open_csv(settings.csv, "--csv")
        with use_threads(settings.threads), target as file, screen:
            for row in rows(jobs, settings.rounds, file):
                screen.add(row)
        if settings.compile:
            with use_threads(settings.threads):
                compiled = [measure_compile(case, settings.rounds) for case in compile_cases(settings)]
            screen.console.print(compile_table(compiled))
    except KeyboardInterrupt:
        screen.say("Stopped.")
        sys.exit(130)
    if settings.csv is not None:
        screen.say(f"The CSV is {settings.csv.resolve()}")


def plan_cases(settings: PathsSettings) -> list[Case]:
    """Return the cases, size by size, or refuse settings that make no sense."""
    try:
        check_sizes("--sizes", settings.sizes, least=2)
        for name, value, least in (
            ("--dim", settings.dim, 1),
            ("--per-class", settings.per_class, 2),
            ("--rounds", settings.rounds, 0),
            ("--threads", settings.threads, 1),
        ):
            check_sizes(name, [value], least=least)
        named = [name.replace("-", "_") for name in settings.losses]
        for name in named:
            check_choice(name, (*NAMES, "all"), "--losses")
        miners = [name.replace("-", "_") for name in settings.miners]
        for name in miners:
            check_choice(name, MINERS, "--miners")
    except ValueError as error:
        raise Mistake(str(error)) from None
    losses = NAMES if "all" in named else tuple(dict.fromkeys(named))
    return [
        case
        for size in dict.fromkeys(settings.sizes)
        for case in cases(losses, tuple(dict.fromkeys(miners)), size, settings.dim, settings.per_class)
    ]


def steps(jobs: list[Case]):
    """Return what the screen shows: one step for each contender of a case."""
    from benchmarks.screen import Step

    return [
        Step(f"{case.loss} {case.miner} at {case.batch:,}", (case.batch,), 1.0 + (case.batch / 1024) ** 1.5)
        for case in jobs
        for _ in contender_names(case)
    ]


def rows(jobs: list[Case], rounds: int, file: TextIO | None) -> Iterator[Row]:
    """Yield the rows of the cases as they are measured, written to the CSV already if there is one."""
    if file is not None:
        csv.writer(file).writerow(COLUMNS)
    for case in jobs:
        for row in measure_case(case, rounds):
            if file is not None:
                csv.writer(file).writerow(row.values())
                file.flush()
            yield row


def compile_cases(settings: PathsSettings) -> list[Case]:
    """Return what is compiled."""
    return [Case(loss, miner, COMPILE_SIZE, settings.dim, settings.per_class) for loss, miner in COMPILED]
