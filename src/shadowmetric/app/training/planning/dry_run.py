"""A plan alone: `--dry-run` makes everything ready but the images, prints the plan and stops; no folder is written.

Images stay on the disk: a few are read, to know how long all of them would take.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from shadowmetric.app.data.dataset import Split
from shadowmetric.app.data.feature_rows import FeatureRows
from shadowmetric.app.training import checkpoint
from shadowmetric.app.training.planning.advice import advise
from shadowmetric.app.training.planning.costs import READ, in_memory, seconds_of_embedding, seconds_of_reading
from shadowmetric.app.training.planning.forecast import Forecast, forecast
from shadowmetric.app.training.preparation import prepare
from shadowmetric.app.training.runs.origin import cores
from shadowmetric.app.training.runs.recipes import HEAD_ONLY
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import TrainSettings, check_settings
from shadowmetric.app.training.setup import Training, accelerator_for, assemble
from shadowmetric.app.training.show import Show, Silent
from shadowmetric.progress import Report

NOWHERE = Path("dry-run")  # the folder of a run that has none
TITLE = "Plan"


def say_plan(training: Training, given: TrainSettings) -> Forecast:
    """Say the plan of a run that is ready to go, and if it takes hours what would take minutes."""
    training.show.stage("timing a few steps", 0.0)
    plan = forecast(training)
    training.show.notes((TITLE, *plan.sentences(), *advise(plan, given)))
    return plan


def plan_run(settings: TrainSettings, show: Show | None = None) -> Forecast:
    """Return the plan of a run that is not begun."""
    check_settings(settings)
    show = show or Silent()
    try:
        training = ready(settings, show, show.stage)
        training.show.notes(training.sentences())
        show.stage("timing a few steps", 0.0)
        return plan_of(training)
    finally:
        show.close()


def plan_of(training: Training) -> Forecast:
    """Return the plan of a run that is ready but for its images, or for the features of them."""
    if training.settings.recipe != HEAD_ONLY:
        return forecast(training)
    dataset = training.parts.dataset
    some = training.parts.train.take(np.arange(min(READ, len(training.parts.train))))
    read = seconds_of_reading(some, range(len(some)))
    each = seconds_of_embedding(training, in_memory(some, range(len(some)))) + read / cores()
    parts = {name: with_rows(training, split) for name, split in dataset.parts().items()}
    train = with_rows(training, training.parts.train)
    validation = training.parts.validation and with_rows(training, training.parts.validation)
    training.parts = replace(training.parts, dataset=replace(dataset, **parts), train=train, validation=validation)
    return forecast(training, each * sum(len(split) for split in parts.values()))


def with_rows(training: Training, split: Split) -> Split:
    """Return a split with random rows in the place of images, as long as the backbone's."""
    rows = torch.randn(len(split), training.bare_embedder.head.in_features)
    return Split(FeatureRows(rows, [""] * len(split)), split.labels, split.groups)


def ready(settings: TrainSettings, show: Show, report: Report | None = None) -> Training:
    """Return a run that is ready to be timed, whose images are still to be read."""
    checkpoint.seed_everything(settings.seed)
    parts = prepare(settings if settings.broken == "skip" else replace(settings, cache_mb=0), report)
    parts = replace(parts, settings=replace(parts.settings, cache_mb=settings.cache_mb))
    run = Run(NOWHERE)
    return assemble(parts, run, show, accelerator_for(parts.settings, run))
