"""The studies by name, as `shadowmetric reproduce` spells them."""

from collections.abc import Sequence
from pathlib import Path

from shadowmetric.experiments import (
    architectures,
    collapse,
    differences,
    fine_grained,
    geometry,
    geometry_picture,
    gradients,
    large_scale,
    medical,
    memory,
    standard,
    tsne,
)
from shadowmetric.experiments.study import Study, records_in
from shadowmetric.experiments.tables import Table

MEMORY = Study(
    name="memory",
    title="Memory",
    tables=lambda records: memory.tables(records["memory"].found) if "memory" in records else [],
    measure=lambda where, tell: memory.measure(where.scale, tell),
)
GEOMETRY = Study(
    name="geometry",
    title="Geometry",
    tables=lambda records: geometry.tables(records["geometry"].found) if "geometry" in records else [],
    measure=lambda where, tell: geometry.measure(where.scale, tell),
    picture=geometry_picture.picture,
)
STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        fine_grained.STUDY,
        large_scale.STUDY,
        standard.STUDY,
        medical.STUDY,
        MEMORY,
        architectures.STUDY,
        collapse.STUDY,
        gradients.STUDY,
        GEOMETRY,
        tsne.STUDY,
        differences.STUDY,
    )
}


def tables_in(folders: Sequence[Path]) -> list[Table]:
    """Return the tables of every study that has records below one of the folders."""
    found = []
    for folder in folders:
        for study in STUDIES.values():
            records = records_in(folder / "records", study.record_names())
            found += [table for table in study.tables(records) if table.rows] if records else []
    return found
