"""`python -m paper report`: what a reproduction leaves in its folder, on one page.

Records of studies lie in a folder or in its folder `records`, and may be all that there is; their tables and the memory
of their steps stand beside the runs that the folder holds. The page is that of `shadowmetric report`.
"""

from collections.abc import Sequence
from pathlib import Path

from paper.catalogue import STUDIES
from paper.studies.memory_tables import name_of
from paper.study import Records, records_in
from shadowmetric.app.report.charts import MemoryBar
from shadowmetric.app.report.collect import places
from shadowmetric.app.report.making import write_report
from shadowmetric.app.report.tables import Table
from shadowmetric.progress import Report

RECORDS = "records"


def report_studies(folders: Sequence[Path], out: Path, *, images: bool = True, tell: Report | None = None) -> int:
    """Write the page of folders with runs, records of studies, or both; return how many bytes it has."""
    for folder in folders:
        if not records_of(folder):
            places(folder)  # which refuses a folder without runs
    record_sets = [records_of(place) for place in dict.fromkeys(records_place(folder).resolve() for folder in folders)]
    return write_report(
        folders,
        out,
        tables=[table for records in record_sets for table in tables_of(records)],
        memory=[bar for records in record_sets for bar in memory_of(records)],
        origins=[record.facts.get("origin", {}) for records in record_sets for record in records.values()],
        images=images,
        tell=tell,
    )


def records_of(folder: Path) -> Records:
    """Return the records of studies in the place where a folder has them."""
    return records_in(records_place(folder), record_names())


def records_place(folder: Path) -> Path:
    """Return the folder `records` inside if it has any, else the folder itself."""
    inside = folder / RECORDS
    return inside if any((inside / f"{name}.json").exists() for name in record_names()) else folder


def record_names() -> list[str]:
    """Return the names of all records that studies leave."""
    return list(dict.fromkeys(name for study in STUDIES.values() for name in study.record_names()))


def tables_of(records: Records) -> list[Table]:
    """Return the tables of every study that has records."""
    tables = []
    for study in STUDIES.values():
        own = {name: records[name] for name in study.record_names() if name in records}
        tables += [table for table in study.tables(own) if table.rows] if own else []
    return tables


def memory_of(records: Records) -> list[MemoryBar]:
    """Return the peaks of training steps that were measured."""
    bars = []
    for one in records["memory"].found["step_peak"] if "memory" in records else []:
        known = [peak for peak in one["bytes"] if peak is not None]
        if known:
            bars.append(MemoryBar(f"a step, D = {one['dim']}", name_of(one["loss"]), max(known)))
    return bars
