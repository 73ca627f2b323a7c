"""`python -m benchmarks memory`: what every loss and miner promises to take, beside what it takes."""

from dataclasses import dataclass

from cyclopts import Parameter

from benchmarks.losses.plan import check_sizes
from benchmarks.memory.contract import DTYPES, MEMORY, SUBJECTS, MemoryJob, skip_reason
from benchmarks.run import Row
from benchmarks.settings import File, Names, Sizes, check_timeout, csv_path
from shadowmetric.checks import check_choice
from shadowmetric.errors import Mistake

BATCHES = (256, 2048)
DIMS = (128,)
EXPECTED_SECONDS = 5.0


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MemorySettings:
    """Settings of `python -m benchmarks memory`."""

    batch: Sizes = BATCHES
    """Rows in a batch (S), one or several. Default: 256 2048."""
    dim: Sizes = DIMS
    """Numbers in a row (D), one or several. Default: 128."""
    name: Names = ()
    """Which losses and miners, as the table names them. Default: all."""
    per_class: int = 5
    """Rows of each class in a batch."""
    scratch_mb: int = 32
    """What blocks may take, in MiB."""
    dtype: str = "float32"
    """Type of the embeddings: float16, bfloat16, float32 or float64."""
    seed: int = 0
    """Seed of the random embeddings."""
    timeout: float = 300.0
    """Seconds that one loss or miner may take at one size."""
    out: File = None
    """CSV file to write. Default: bench-memory-DATE-TIME.csv in this folder."""


def memory(*, settings: MemorySettings | None = None) -> None:
    """Print the bytes that every loss and miner promises, as a formula and at a size, beside those it takes.

    S rows of D numbers, P positive pairs, T listed triplets, C centers. Counted: live tensors at their most, forward
    and backward, the embeddings' gradient included. Resident: how far the memory of a process rose in such a step,
    with allocator and BLAS. Kept: what is held between forward and backward. A row that takes more than its formula
    says is marked, and the command then ends with exit code 1.
    """
    import sys

    from benchmarks.screen import BenchScreen, Step, run_jobs

    settings = settings or MemorySettings()
    jobs, out = plan_jobs(settings), csv_path(settings.out, "bench-memory")
    steps = [Step(f"{job.name} at {job.batch} × {job.dim}", (job.batch, job.dim), EXPECTED_SECONDS) for job in jobs]
    screen = BenchScreen(steps, size_table)
    run_jobs(MEMORY, jobs, skip_reason, settings.timeout, out, screen)
    screen.console.print(formula_table(screen.rows))
    over = [f"{row['name']} at {row['batch']} × {row['dim']}" for row in screen.rows if row["over"]]
    screen.say(f"More than its formula: {'; '.join(over) or 'none'}.")
    screen.say(f"The CSV is {out.resolve()}")
    if over:
        sys.exit(1)


def plan_jobs(settings: MemorySettings) -> list[MemoryJob]:
    """Return the jobs, size by size, or refuse settings that make no sense."""
    try:
        check_sizes("--batch", settings.batch, least=2)
        check_sizes("--dim", settings.dim)
        check_sizes("--per-class", [settings.per_class])
        check_sizes("--scratch-mb", [settings.scratch_mb])
        check_sizes("--seed", [settings.seed], least=0)
        check_choice(settings.dtype, DTYPES, "--dtype")
        for name in settings.name:
            check_choice(name, tuple(SUBJECTS), "--name")
    except ValueError as error:
        raise Mistake(str(error)) from None
    check_timeout(settings.timeout)
    same = (settings.per_class, settings.scratch_mb, settings.dtype, settings.seed)
    return [
        MemoryJob(name, batch, dim, *same)
        for batch in dict.fromkeys(settings.batch)
        for dim in dict.fromkeys(settings.dim)
        for name in SUBJECTS
        if not settings.name or name in settings.name
    ]


def size_table(rows: list[Row]):
    """Return the table of one (S, D): predicted beside counted and resident, in MB, and what is kept."""
    from rich import box
    from rich.table import Table

    title = f"S = {rows[0]['batch']}, D = {rows[0]['dim']}, {rows[0]['dtype']}; MB"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("loss or miner", no_wrap=True)
    for heading in ("predicted", "counted", "of it", "resident", "kept, predicted", "kept", "over"):
        table.add_column(heading, justify="right")
    if any(row["reason"] for row in rows):
        table.add_column("why not", overflow="fold")
    for row in rows:
        share = None if row["counted_share"] is None else f"{row['counted_share']:.0%}"
        peak = (_mb(row["predicted_bytes"]), _mb(row["counted_bytes"]), share or "–", _mb(row["resident_bytes"]))
        kept = (_mb(row["kept_predicted_bytes"]), _mb(row["kept_bytes"]))
        table.add_row(row["name"], *peak, *kept, "OVER" if row["over"] else "", row["reason"] or "")
    return table


def formula_table(rows: list[Row]):
    """Return the formulas, each loss and miner once."""
    from rich import box
    from rich.table import Table

    table = Table(title="Bytes", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("loss or miner", "kept", "peak"):
        table.add_column(heading, no_wrap=heading != "peak", overflow="fold")
    for row in {row["name"]: row for row in rows if row["formula"]}.values():
        table.add_row(row["name"], row["kept_formula"], row["formula"])
    return table


def _mb(count: int | None) -> str:
    return "–" if count is None else f"{count / 1e6:.2f}"
