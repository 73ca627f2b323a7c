"""`python -m benchmarks evaluation`: time, memory and agreement of the evaluation beside faiss and scikit-learn."""

from dataclasses import dataclass

from cyclopts import Parameter

from benchmarks.evaluation.plan import (
    CONTENDERS,
    EVALUATION,
    STAGES,
    EvaluationJob,
    expected_seconds,
    skip_reason,
)
from benchmarks.losses.plan import check_sizes
from benchmarks.settings import File, Names, Sizes, check_timeout, csv_path
from shadowmetric.checks import check_choice
from shadowmetric.errors import Mistake

ROWS = (60_000,)
DIMS = (64,)
CLASSES = (10, 10_000)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """Settings of `python -m benchmarks evaluation`."""

    rows: Sizes = ROWS
    """Rows of the set, one or several. Default: 60000."""
    dim: Sizes = DIMS
    """Numbers in a row, one or several. Default: 64."""
    classes: Sizes = CLASSES
    """Classes of the set, one or several. Default: 10 10000."""
    contender: Names = CONTENDERS
    """Who evaluates: ours, peers. Default: both."""
    measures: Names = ("all",)
    """What is measured: recall-map (Recall@1,2,4,8 and MAP@R), silhouette, or all. Default: all."""
    seed: int = 0
    """Seed of the rows and of the order of their labels."""
    timeout: float = 1800.0
    """Seconds that one contender may take at one size."""
    queries: int | None = None
    """Let faiss search only so many queries and scale its time up; such figures are marked extrapolated."""
    out: File = None
    """CSV file to write. Default: bench-evaluation-DATE-TIME.csv in this folder."""


def evaluation(*, settings: EvaluationSettings | None = None) -> None:
    """Measure Recall@1,2,4,8, MAP@R and silhouette: time, memory and agreement beside faiss and scikit-learn.

    A seeded set of rows around class centers is evaluated against itself, each query left out of its own
    gallery, by each contender in a process of its own. The tables show the seconds of each stage, the
    memory added at the peak, the figures, and the bars that ours has to meet at 60,000 rows of 64 numbers.
    What cannot be measured is a row with the reason.
    """
    from benchmarks.evaluation.table import bars_table, cost_table, figures_table
    from benchmarks.screen import BenchScreen, run_jobs

    settings = settings or EvaluationSettings()
    jobs, out = plan_jobs(settings), csv_path(settings.out, "bench-evaluation")
    screen = BenchScreen(steps(jobs), cost_table)
    run_jobs(EVALUATION, jobs, skip_reason, settings.timeout, out, screen)
    screen.console.print(figures_table(screen.rows))
    if "ours" in settings.contender:
        screen.console.print(bars_table(screen.rows))
    screen.say(f"The CSV is {out.resolve()}")


def plan_jobs(settings: EvaluationSettings) -> list[EvaluationJob]:
    """Return the jobs, cell by cell, or refuse settings that make no sense."""
    try:
        check_sizes("--rows", settings.rows, least=2)
        check_sizes("--dim", settings.dim)
        check_sizes("--classes", settings.classes, least=2)
        check_sizes("--seed", [settings.seed], least=0)
        check_sizes("--queries", [] if settings.queries is None else [settings.queries])
        for name in settings.contender:
            check_choice(name, CONTENDERS, "--contender")
        for name in settings.measures:
            check_choice(name, (*STAGES, "all"), "--measures")
    except ValueError as error:
        raise Mistake(str(error)) from None
    check_timeout(settings.timeout)
    measures = " ".join(name for name in STAGES if {name, "all"} & set(settings.measures))
    return [
        EvaluationJob(name, rows, dim, classes, measures, settings.seed, settings.queries)
        for rows in dict.fromkeys(settings.rows)
        for dim in dict.fromkeys(settings.dim)
        for classes in dict.fromkeys(settings.classes)
        for name in CONTENDERS
        if name in settings.contender
    ]


def steps(jobs: list[EvaluationJob]):
    """Return what the screen shows of each job."""
    from benchmarks.screen import Step

    return [
        Step(
            f"{job.contender} at {job.rows:,} × {job.dim}, {job.classes:,} classes",
            (job.rows, job.dim, job.classes),
            expected_seconds(job),
        )
        for job in jobs
    ]
