"""The studies by name, as `python -m paper` spells them."""

from paper.studies import (
    architectures,
    collapse,
    differences,
    fine_grained,
    geometry,
    geometry_image,
    gradients,
    large_scale,
    medical,
    memory,
    standard,
    tsne,
)
from paper.study import Study

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
    image=geometry_image.image,
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
