"""A study: a table, figure or ablation of the paper, done again.

Its trainings are beds; what is no training (memory, geometry, t-SNE) is measured. Both end in records, plain files that
the tables, the report and the claims page are made from, and that can be kept in a repository.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from paper.bed import Bed, Where
from paper.record import Record, check_scale, read_record, record_at, write_found, write_record
from shadowmetric.app.compare.cells import ensure_folder, run_cells
from shadowmetric.app.compare.compare import default_jobs, run_floors
from shadowmetric.app.compare.plan import Plan
from shadowmetric.app.report.tables import Table
from shadowmetric.errors import DataMistake, Interrupted
from shadowmetric.progress import Report
from shadowmetric.runtime.files import write_text

Records = dict[str, Record]


@dataclass(frozen=True)
class Study:
    """What is trained or measured, and how it is shown."""

    name: str
    title: str
    beds: tuple[Bed, ...] = ()
    tables: Callable[[Records], list[Table]] = lambda records: []
    measure: Callable[[Where, Report], dict[str, Any]] | None = None  # what is no training, after the trainings
    stale: Callable[[Where, dict[str, Any]], bool] | None = None  # whether what was measured holds no longer
    image: Callable[[dict[str, Any]], str] | None = None  # an SVG of what was measured
    needs: tuple[str, ...] = ()  # packages that measuring imports, of the extra `report`

    def record_names(self) -> tuple[str, ...]:
        """Return the records that it is shown from."""
        return (*(bed.name for bed in self.beds), *((self.name,) if self.measure else ()))


def run_study(
    study: Study, where: Where, command: str, tell: Report, *, only: Sequence[str] = (), records: Path | None = None
) -> dict[str, str]:
    """Train and measure what is missing, and write the records; return why trainings failed, or had no data.

    only: names of beds, instead of all. A study that is stopped leaves records of what is finished. What is measured
    after trainings is not, if any of them failed.
    """
    beds = [bed for bed in study.beds if not only or bed.name in only]
    plans = [bed.plan(where) for bed in beds]
    folder = records or where.out / "records"
    check_scale(folder, [*(bed.name for bed in beds), study.name], where.scale)
    plans = [plan.begin_or_go_on() for plan in plans]
    try:
        absent = without_data([plan for plan in plans if plan.floors], tell)
        present = [plan for plan in plans if plan.bed not in absent]
        cells = sorted((cell for plan in present for cell in plan.cells()), key=lambda cell: cell.settings.seed)
        failures = absent | (run_cells(cells, where.jobs or default_jobs(present[0]), tell) if present else {})
        if not failures:
            measure(study, where, folder, command, tell)
    except (Interrupted, KeyboardInterrupt):
        raise Interrupted(command) from None
    finally:
        for bed, plan in zip(beds, plans, strict=True):
            write_record(folder, bed, plan, where.scale, command)
    return failures


def measure(study: Study, where: Where, folder: Path, command: str, tell: Report) -> None:
    """Measure what is no training and draw it, if that is missing or stale; another process that does is waited for."""
    if study.measure is None:
        return
    path = folder / f"{study.name}.json"
    with FileLock(ensure_folder(where.out) / f".{study.name}.lock"):
        record = record_at(path)
        if record is None or (study.stale is not None and study.stale(where, record.found)):
            write_found(path, study.measure(where, tell), where.scale, command)
        if study.image is not None:
            write_text(folder / f"{study.name}.svg", study.image(read_record(path).found))


def without_data(plans: Sequence[Plan], tell: Report) -> dict[str, str]:
    """Score what needs no training; return which beds have no data and why, or refuse if none has."""
    absent = {}
    for plan in plans:
        try:
            run_floors(plan, tell)
        except DataMistake as error:
            absent[plan.bed] = str(error)
            if len(absent) == len(plans):
                raise
    return absent


def records_in(folder: Path, names: Sequence[str]) -> Records:
    """Return those records that are there."""
    paths = {name: folder / f"{name}.json" for name in names}
    return {name: read_record(path) for name, path in paths.items() if path.exists()}
