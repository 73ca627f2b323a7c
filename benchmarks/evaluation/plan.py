"""The jobs of the evaluation's bench: one contender on one set of rows, scored against itself.

Rows are seeded and lie around class centers; classes are equally large, up to one row, and shuffled. With
`queries` the peers search that many of the rows only, and their search time is scaled up to all of them; the
retrieval figures of both contenders are then those of these queries, so that they can still be compared.
"""

from dataclasses import dataclass

from benchmarks.run import Row, kind

CONTENDERS = ("ours", "peers")
STAGES = {"recall-map": "retrieval", "silhouette": "silhouette"}  # measure of the command -> what is timed
RECALL_AT = (1, 2, 4, 8)
FIGURES = (*(f"recall_at_{k}" for k in RECALL_AT), "map_at_r", "silhouette")

EVALUATION = kind(
    "benchmarks.evaluation.worker",
    *("contender", "rows", "dim", "classes", "measures", "seed", "queries"),
    *("retrieval_s", "silhouette_s", "total_s", "extrapolated", "peak_extra_mb", *FIGURES, "reason", "version"),
)

START_SECONDS = 8.0  # imports, inputs and the warm-up
PAIR_NANOSECONDS = {  # two cores, 64 numbers a row; they drive the estimate of what remains, and no table shows them
    ("ours", "retrieval"): 6.0,
    ("ours", "silhouette"): 10.0,
    ("peers", "retrieval"): 6.0,
    ("peers", "silhouette"): 45.0,
}
FOUND_NANOSECONDS = 300.0  # for each neighbor that the peers find, sort and look up


@dataclass(frozen=True)
class EvaluationJob:
    """One contender on one set of rows."""

    contender: str
    rows: int
    dim: int
    classes: int
    measures: str = " ".join(STAGES)
    seed: int = 0
    queries: int | None = None

    @property
    def stages(self) -> tuple[str, ...]:
        """Return what is timed."""
        return tuple(STAGES[measure] for measure in self.measures.split())

    @property
    def searched(self) -> int:
        """Return how many queries the retrieval figures are of."""
        return min(self.queries or self.rows, self.rows)

    @property
    def extrapolated(self) -> bool:
        """Return whether the time of the search is that of a part of the queries, scaled up."""
        return self.contender == "peers" and "retrieval" in self.stages and self.searched < self.rows


def skip_reason(job: EvaluationJob) -> str | None:
    """Return why the job is not run, or None if it is."""
    if job.rows < 2 * job.classes:
        return f"{job.rows:,} rows are fewer than two for each of {job.classes:,} classes"
    return None


def expected_seconds(job: EvaluationJob) -> float:
    """Return roughly how long the job's process lives."""
    if skip_reason(job):
        return 0.0
    seconds = START_SECONDS
    for stage in job.stages:
        part = job.searched if job.extrapolated and stage == "retrieval" else job.rows
        hits = job.rows / job.classes if (job.contender, stage) == ("peers", "retrieval") else 0.0
        seconds += 1e-9 * part * (PAIR_NANOSECONDS[job.contender, stage] * job.rows + FOUND_NANOSECONDS * hits)
    return seconds


def cell(row: Row) -> tuple[int, int, int]:
    """Return the size that contenders are compared at: rows, dim, classes."""
    return row["rows"], row["dim"], row["classes"]
