"""`python -m benchmarks losses`: time, memory and kept bytes beside the peers and beside one bare matrix product."""

from dataclasses import dataclass

from cyclopts import Parameter

from benchmarks.losses.contenders import CONTENDERS
from benchmarks.losses.peers import PREFIX, THEIRS, is_known
from benchmarks.losses.plan import (
    BATCHES,
    DIMS,
    FULL_BATCHES,
    FULL_DIMS,
    LOSSES,
    Job,
    Machine,
    check_sizes,
    expected_seconds,
    skip_reason,
    this_machine,
)
from benchmarks.settings import File, Flag, Names, Sizes, check_timeout, csv_path
from shadowmetric.checks import check_choice
from shadowmetric.errors import Mistake
from shadowmetric.losses.catalogue import LOSSES as LOSSES_BY_NAME


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LossesSettings:
    """Settings of `python -m benchmarks losses`."""

    batch: Sizes = ()
    """Rows in a batch (S), one or several. Default: 32 256 1024 4096 8192; with --full also 65536."""
    dim: Sizes = ()
    """Numbers in a row (D), one or several. Default: 128 512; with --full 64 128 512 2048."""
    contender: Names = ()
    """Which rows: ours, pml, st, algorithm-1, bare-product (default: all of them); or losses by their names, such as
    sup_con, and pml:sup_con for the same of pytorch-metric-learning."""
    per_class: int = 5
    """Rows of each class in a batch."""
    repeats: int = 5
    """Steps timed for each figure, which is their median; fewer where they take more than half a minute."""
    seed: int = 0
    """Seed of the random embeddings."""
    clustered: Flag = False
    """Draw rows around class centers, as trained embeddings look, instead of at random."""
    full: Flag = False
    """Measure the whole grid; this takes long."""
    timeout: float = 300.0
    """Seconds that one contender may take at one size; what would need more is skipped."""
    out: File = None
    """CSV file to write. Default: bench-DATE-TIME.csv in this folder."""


def losses(*, settings: LossesSettings | None = None) -> None:
    """Measure time, memory and bytes kept for backward, beside the peers and one bare matrix product.

    Each contender mines semi-hard triplets of a batch of S rows of D numbers and runs its loss forward
    and backward, in a process of its own. The table shows medians in milliseconds, the ratio to the bare
    product E @ E.T of the same size, which is timed just before and after, the memory that the step adds
    at its peak, and the bytes that it keeps for backward. What cannot be measured is a row with the reason.
    """
    from benchmarks.losses.table import cell_table, ratio_table
    from benchmarks.screen import BenchScreen, run_jobs

    settings = settings or LossesSettings()
    jobs, timeout, out = plan_jobs(settings), settings.timeout, csv_path(settings.out, "bench")
    machine = this_machine()
    screen = BenchScreen(steps(jobs, machine, timeout), cell_table)
    run_jobs(LOSSES, jobs, lambda job: skip_reason(job, machine, timeout), timeout, out, screen)
    if any(row["contender"] == "ours" for row in screen.rows):
        screen.console.print(ratio_table(screen.rows))
    screen.say(f"The CSV is {out.resolve()}")


def plan_jobs(settings: LossesSettings) -> list[Job]:
    """Return the jobs, cell by cell from small to large, or refuse settings that make no sense."""
    try:
        check_sizes("--batch", settings.batch)
        check_sizes("--dim", settings.dim)
        check_sizes("--per-class", [settings.per_class])
        check_sizes("--repeats", [settings.repeats])
        check_sizes("--seed", [settings.seed], least=0)
        for name in settings.contender:
            if not is_known(name):
                check_choice(name, (*CONTENDERS, *LOSSES_BY_NAME, *(PREFIX + name for name in THEIRS)), "--contender")
    except ValueError as error:
        raise Mistake(str(error)) from None
    check_timeout(settings.timeout)
    batches = settings.batch or (FULL_BATCHES if settings.full else BATCHES)
    dims = settings.dim or (FULL_DIMS if settings.full else DIMS)
    known = [name for name in CONTENDERS if not settings.contender or name in settings.contender]
    contenders = [*known, *(name for name in settings.contender if name not in CONTENDERS)]
    same = (settings.per_class, settings.repeats, settings.seed, settings.clustered)
    return [
        Job(name, batch, dim, *same)
        for batch in dict.fromkeys(batches)
        for dim in dict.fromkeys(dims)
        for name in contenders
    ]


def steps(jobs: list[Job], machine: Machine, timeout: float):
    """Return what the screen shows of each job."""
    from benchmarks.screen import Step

    return [
        Step(
            f"{job.contender} at {job.batch} × {job.dim}",
            (job.batch, job.dim),
            0.0 if skip_reason(job, machine, timeout) else expected_seconds(job, machine),
        )
        for job in jobs
    ]
