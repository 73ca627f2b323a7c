"""`python -m benchmarks planning`: short runs of different kinds, each by the command as a user gives it.

A run writes plan.json with what it planned before its first step, and what it took. A row is written as soon as its run
is finished; a second call goes on with what is missing.
"""

from pathlib import Path

from benchmarks.settings import Names


def planning(*, data_root: Path | None = None, runs: Names = (), out: Path = Path("planning.csv")) -> None:
    """Train short runs and print what was planned beside what they took: seconds, and bytes at the peak.

    Parameters
    ----------
    data_root
        Where datasets lie. Default: $SHADOWMETRIC_DATA, else ./data.
    runs
        glyphs glyphs-shadow cifar10 ham10000 cub200-resnet18 cub200-pieces. Default: all.
    out
        The file; what it has is not done again.
    """
    from benchmarks.planning.runs import RUNS, run_missing
    from shadowmetric.errors import Mistake

    for name in runs:
        if name not in RUNS:
            raise Mistake(f"--runs has {name!r}; choose from {', '.join(RUNS)}.")
    for row in run_missing(runs or tuple(RUNS), out, data_root):
        planned, took = float(row["planned_seconds"]), float(row["seconds"])
        memory = f"{float(row['planned_bytes']) / 1e6:,.0f} MB planned, {float(row['bytes']) / 1e6:,.0f} MB taken"
        print(f"{row['run']}: {planned:.1f} s planned, {took:.1f} s taken ({took / planned:.2f}); {memory}", flush=True)
