"""The studies by name, as `shadowmetric reproduce` spells them."""

from shadowmetric.experiments import (
    architectures,
    collapse,
    differences,
    fine_grained,
    gradients,
    large_scale,
    medical,
    standard,
)
from shadowmetric.experiments.study import Study

STUDIES: dict[str, Study] = {
    module.STUDY.name: module.STUDY
    for module in (
        fine_grained,
        large_scale,
        standard,
        medical,
        architectures,
        collapse,
        gradients,
        differences,
    )
}
