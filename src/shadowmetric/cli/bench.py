"""`shadowmetric bench`: time, memory and kept bytes beside the peers and beside one bare matrix product."""

import datetime
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from shadowmetric.bench.contenders import CONTENDERS
from shadowmetric.bench.plan import (
    BATCHES,
    DIMS,
    FULL_BATCHES,
    FULL_DIMS,
    Job,
    check_contenders,
    check_sizes,
    this_machine,
)
from shadowmetric.cli.mistake import Mistake

Sizes = Annotated[tuple[int, ...], Parameter(consume_multiple=True, negative="", show_default=False)]
Names = Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="", show_default=False)]
Flag = Annotated[bool, Parameter(negative="")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """Settings of `shadowmetric bench`."""

    batch: Sizes = ()
    """Rows in a batch (S), one or several. Default: 32 256 1024 4096 8192; with --full also 65536."""
    dim: Sizes = ()
    """Numbers in a row (D), one or several. Default: 128 512; with --full 64 128 512 2048."""
    contender: Names = ()
    """Which rows: ours, pml, st, algorithm-1, bare-product. Default: all of them."""
    per_class: int = 5
    """Rows of each class in a batch."""
    repeats: int = 5
    """Steps timed for each figure, which is their median; fewer where they take more than half a minute."""
    seed: int = 0
    """Seed of the random embeddings."""
    clustered: Flag = False
    """Draw rows around class centres, as trained embeddings look, instead of at random."""
    full: Flag = False
    """Measure the whole grid; this takes long."""
    timeout: float = 300.0
    """Seconds that one contender may take at one size; what would need more is skipped."""
    out: Annotated[Path | None, Parameter(show_default=False)] = None
    """CSV file to write. Default: bench-DATE-TIME.csv in this folder."""


def bench(*, settings: BenchSettings | None = None) -> None:
    """Measure time, memory and bytes kept for backward, beside the peers and one bare matrix product.

    Each contender mines semi-hard triplets of a batch of S rows of D numbers and runs its loss forward
    and backward, in a process of its own. The table shows medians in milliseconds, the ratio to the bare
    product E @ E.T of the same size, which is timed just before and after, the memory that the step adds
    at its peak, and the bytes that it keeps for backward. What cannot be measured is a row with the reason.
    """
    from shadowmetric.bench.run import rows
    from shadowmetric.cli.bench_table import BenchTable

    settings = settings or BenchSettings()
    jobs = planned(settings)
    out = settings.out or Path(f"bench-{datetime.datetime.now():%Y%m%d-%H%M%S}.csv")
    with opened(out) as file:
        machine = this_machine()
        table = BenchTable(jobs, machine, settings.timeout)
        try:
            with table:
                for row in rows(jobs, machine, settings.timeout, file):
                    table.add(row)
        except KeyboardInterrupt:
            table.say(f"Stopped. The rows that finished are in {out.resolve()}")
            sys.exit(130)
    table.print_ratios()
    table.say(f"The CSV is {out.resolve()}")


def planned(settings: BenchSettings) -> list[Job]:
    """Return the jobs, cell by cell from small to large, or refuse settings that make no sense."""
    try:
        check_sizes("--batch", settings.batch)
        check_sizes("--dim", settings.dim)
        check_sizes("--per-class", [settings.per_class])
        check_sizes("--repeats", [settings.repeats])
        check_sizes("--seed", [settings.seed], least=0)
        check_contenders(settings.contender)
    except ValueError as wrong:
        raise Mistake(str(wrong)) from None
    if not settings.timeout > 0:
        raise Mistake(f"--timeout is {settings.timeout:g}; it must be above 0 seconds.")
    batches = settings.batch or (FULL_BATCHES if settings.full else BATCHES)
    dims = settings.dim or (FULL_DIMS if settings.full else DIMS)
    chosen = [name for name in CONTENDERS if not settings.contender or name in settings.contender]
    same = (settings.per_class, settings.repeats, settings.seed, settings.clustered)
    return [
        Job(name, batch, dim, *same)
        for batch in dict.fromkeys(batches)
        for dim in dict.fromkeys(dims)
        for name in chosen
    ]


@contextmanager
def opened(out: Path):
    """Open the CSV for writing before anything is measured, or refuse it."""
    try:
        file = out.open("w", newline="", encoding="utf-8")
    except OSError as wrong:
        raise Mistake(f"--out {str(out)!r} cannot be written: {wrong.strerror}; choose another file.") from None
    with file:
        yield file
