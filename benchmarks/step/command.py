"""`python -m benchmarks step`: memory and time of a whole training step, in micro-batches and plain."""

from dataclasses import dataclass

from cyclopts import Parameter

from benchmarks.losses.plan import check_sizes
from benchmarks.settings import File, Sizes, check_timeout, csv_path
from benchmarks.step.steps import STEPS, StepJob
from shadowmetric.errors import Mistake


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class StepSettings:
    """Settings of `python -m benchmarks step`."""

    backbone: str = "resnet18"
    """The embedder's backbone."""
    size: int = 64
    """Pixels of a side."""
    plain: Sizes = (32, 256)
    """Batches that are embedded as a whole. Default: 32 256."""
    cached: Sizes = (256, 2048)
    """Logical batches that are embedded in micro-batches. Default: 256 2048."""
    micro_batch: int = 32
    """Images of a micro-batch."""
    peer: Sizes = (256,)
    """Batches for pytorch-metric-learning, embedded as a whole. Default: 256."""
    repeats: int = 0
    """Further steps that are timed; the fastest of all is shown."""
    timeout: float = 3600.0
    """Seconds that one row may take."""
    out: File = None
    """CSV file to write. Default: bench-step-DATE-TIME.csv in this folder."""


def step(*, settings: StepSettings | None = None) -> None:
    """Measure a training step with its embedder: a logical batch in micro-batches beside plain batches and the peer.

    Memory is what the process holds at its peak above its idle state (libraries and weights).
    """
    from benchmarks.screen import BenchScreen, run_jobs

    settings = settings or StepSettings()
    jobs, out = plan_jobs(settings), csv_path(settings.out, "bench-step")
    screen = BenchScreen(steps(jobs), table)
    run_jobs(STEPS, jobs, lambda job: None, settings.timeout, out, screen)
    for sentence in sentences(screen.rows):
        screen.say(sentence)
    screen.say(f"The CSV is {out.resolve()}")


def plan_jobs(settings: StepSettings) -> list[StepJob]:
    """Return the jobs, or refuse settings that make no sense."""
    try:
        for name, sizes in (("--plain", settings.plain), ("--cached", settings.cached), ("--peer", settings.peer)):
            check_sizes(name, sizes, least=2)
        for name, value, least in (
            ("--micro-batch", settings.micro_batch, 1),
            ("--repeats", settings.repeats, 0),
            ("--size", settings.size, 8),
        ):
            check_sizes(name, [value], least=least)
    except ValueError as error:
        raise Mistake(str(error)) from None
    check_timeout(settings.timeout)

    def job(contender: str, batch: int, micro_batch: int | None = None) -> StepJob:
        return StepJob(contender, settings.backbone, settings.size, batch, micro_batch, repeats=settings.repeats)

    return [
        *(job("plain", batch) for batch in settings.plain),
        *(job("cached", batch, settings.micro_batch) for batch in settings.cached),
        *(job("pml", batch) for batch in settings.peer),
    ]


def steps(jobs: list[StepJob]):
    """Return what the screen shows of each job."""
    from benchmarks.screen import Step

    return [
        Step(
            f"{job.contender}, batch {job.batch:,}",
            (0,),
            (job.repeats + 1) * job.batch * (1.33 if job.contender == "cached" else 1.0),
        )
        for job in jobs
    ]


def table(rows: list[dict]):
    """Return the rows as a table."""
    from benchmarks.screen import format_figure
    from shadowmetric.app.cli.screen import new_table

    grid = new_table("A training step", "figure", "batch", "micro-batch", "peak MB", "seconds", "images/s", "loss")
    grid.columns[0].header = "how"
    for row in rows:
        if row["reason"]:
            grid.add_row(row["contender"], f"{row['batch']:,}", "", row["reason"], "", "", "")
            continue
        micro_batch = "" if row["micro_batch"] is None else f"{row['micro_batch']:,}"
        figures = [format_figure(row[name]) for name in ("peak_extra_mb", "seconds", "images_per_second")]
        grid.add_row(row["contender"], f"{row['batch']:,}", micro_batch, *figures, f"{row['loss']:.6f}")
    return grid


def sentences(rows: list[dict]) -> list[str]:
    """Return the two ratios that matter: memory against the plain micro-batch, time at an equal batch."""
    done = [row for row in rows if not row["reason"]]
    plain = {row["batch"]: row for row in done if row["contender"] == "plain"}
    lines = []
    for row in done:
        if row["contender"] != "cached":
            continue
        small, same = plain.get(row["micro_batch"]), plain.get(row["batch"])
        if small is not None and isinstance(row["peak_extra_mb"], float):
            ratio = row["peak_extra_mb"] / small["peak_extra_mb"]
            lines.append(f"A batch of {row['batch']:,} takes {ratio:.2f} of a plain {row['micro_batch']}'s memory.")
        if same is not None and isinstance(row["peak_extra_mb"], float):
            ratio, memory = row["seconds"] / same["seconds"], row["peak_extra_mb"] / same["peak_extra_mb"]
            lines.append(
                f"At {row['batch']:,} images, cached takes {ratio:.2f} of plain's time, {memory:.2f} of its memory."
            )
    return lines
