"""From settings to all that a run needs: images in three parts, embedder, loss.

The best epoch, the plateau and early stopping look at a validation part that is carved from the *training* images;
the test split is scored once, at the end (Musgrave et al., A Metric Learning Reality Check, on why). Whole classes
are held out where the test classes are new as well and there are at least 20 training classes; else a share of each
class; images of one group stay together.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from shadowmetric.app.data.augmentation import AUTO
from shadowmetric.app.data.cache import prepare_images
from shadowmetric.app.data.catalogue import open_dataset
from shadowmetric.app.data.dataset import ZERO_SHOT, Dataset, Split
from shadowmetric.app.data.image_kind import look_at
from shadowmetric.app.data.preprocessing import Preprocessing, preprocessing_for
from shadowmetric.app.data.splits import part_classes, part_images
from shadowmetric.app.data.thinning import limit_per_class
from shadowmetric.app.models.from_settings import embedder_for
from shadowmetric.app.training.features.compute import Work, with_features
from shadowmetric.app.training.first_weights import choose_weights, is_open
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import ALL, TrainSettings, resolve_settings, with_recipe
from shadowmetric.errors import Mistake
from shadowmetric.progress import Report, silent
from shadowmetric.runtime.counting import count

LEAST_CLASSES = 20  # of a training split, to hold whole ones out


@dataclass(frozen=True, eq=False)
class Parts:
    """The images of a run, resized, and how they were parted."""

    dataset: Dataset  # as it was read, but for images that were left out
    train: Split  # without the validation part; labels are 0 to classes - 1
    validation: Split | None
    shape: Preprocessing
    settings: TrainSettings  # resolved
    notes: tuple[str, ...]  # sentences for people
    seen: tuple[str, ...] = ()  # what followed from a look; a resumed run has it in its settings, and does not look

    @property
    def classes(self) -> int:
        """Return how many classes are trained on."""
        return int(self.train.labels.max()) + 1


def prepare(settings: TrainSettings, report: Report | None = None, *, features: bool = False) -> Parts:
    """Read the data that the settings name and part it.

    features: take what the backbone makes of the images, with its first weights, in their place.
    """
    dataset = open_dataset(
        settings.data, settings.data_root, allow_partial=settings.allow_partial, split=settings.split
    )
    dataset = limit_per_class(dataset, settings.most_per_class)
    shape = preprocessing_for(dataset.train.images, settings.size, settings.resize, settings.channels)
    wants_look = is_open(settings) or with_recipe(settings).augment == AUTO
    look = look_at(dataset.train.images) if wants_look else None
    settings, loud = choose_weights(settings, shape, look)
    if loud:
        shape = preprocessing_for(dataset.train.images, settings.size, settings.resize, settings.channels)
    settings = resolve_settings(
        settings,
        size=shape.size,
        resize=shape.resize,
        channels=shape.channels,
        images="photo" if look is None else look.kind,
    )
    if features:
        work = Work(embedder_for(settings), shape, settings, report or silent)
        dataset = with_features(dataset, work)
    else:
        dataset = with_resized(dataset, shape, settings, report)
    train, validation, how = split_for_selection(dataset, settings)
    labels = np.unique(train.labels, return_inverse=True)[1].astype(np.int64)
    if settings.epochs == 0 and settings.weights != "none":
        settings = replace(settings, dim=embedder_for(replace(settings, weights=None)).head.in_features)
    if settings.batch == ALL:
        settings = replace(settings, batch=images_with_others(labels))
    seen = () if look is None else (f"{look.sentence()}; training changes them as --augment {settings.augment} does.",)
    notes = (*((loud,) if loud else ()), *dataset.notes, how)
    return Parts(dataset, Split(train.images, labels, train.groups), validation, shape, settings, notes, seen)


def settle(settings: TrainSettings) -> tuple[TrainSettings, str]:
    """Return the settings with the weights to begin with, for who needs to know before the work; and what to say."""
    if not is_open(settings):
        return settings, ""
    dataset = open_dataset(
        settings.data, settings.data_root, allow_partial=settings.allow_partial, split=settings.split
    )
    images = dataset.train.images
    shape = preprocessing_for(images, settings.size, settings.resize, settings.channels)
    return choose_weights(settings, shape, look_at(images))


def images_with_others(labels: np.ndarray) -> int:
    """Return how many images have another one of their class."""
    counts = np.bincount(labels)
    return int(counts[counts > 1].sum())


def parts_of(
    run: Run, *, data: str | None = None, data_root: Path | None = None, report: Report | None = None
) -> Parts:
    """Return the images of a run, or of other data, as its embedder takes them."""
    settings = run.settings()
    if data is not None:
        settings = replace(settings, data=data, split="official")
    if data_root is not None:
        settings = replace(settings, data_root=data_root)
    return prepare(settings, report)


def with_resized(dataset: Dataset, shape: Preprocessing, settings: TrainSettings, report: Report | None) -> Dataset:
    """Return the dataset with images resized and, if they fit, in memory."""
    parts, notes = {}, list(dataset.notes)
    total = sum(len(split) for split in dataset.parts().values())
    done = 0
    for name, split in dataset.parts().items():

        def tell(count: int, done: int = done) -> None:
            if report is not None:
                report("reading images", (done + count) / total)

        parts[name], broken = prepare_images(
            split,
            shape,
            limit_bytes=round(settings.cache_mb * 2**20 * len(split) / total),
            skip_broken=settings.broken == "skip",
            tell=tell,
        )
        done += len(split)
        if broken:
            words = f"image of {name} cannot be read and is", f"images of {name} cannot be read and are"
            notes.append(f"{count(len(broken), *words)} left out: {', '.join(broken[:5])}.")
    return replace(dataset, **parts, notes=tuple(notes))


def split_for_selection(dataset: Dataset, settings: TrainSettings) -> tuple[Split, Split | None, str]:
    """Return what is trained on, what epochs are judged by, and how it was chosen in one sentence."""
    train = dataset.train
    if settings.select_on == "test":
        return train, None, "The best epoch is chosen ON THE TEST SPLIT, as was asked: the scores are too good."
    if settings.validation == 0:
        if settings.patience:
            raise Mistake("--validation is 0, so nothing can judge epochs; set --patience 0 as well.")
        return train, None, "There is no validation part: the last epoch is kept."
    classes = len(np.unique(train.labels))
    if dataset.kind == ZERO_SHOT and classes >= LEAST_CLASSES:
        kept, held = part_classes(train.labels, settings.validation, seed=settings.seed)
        what = f"{len(np.unique(train.labels[held]))} of the {classes} training classes ({len(held):,} images)"
    else:
        kept, held = part_images(train.labels, settings.validation, seed=settings.seed, groups=train.groups, least=2)
        what = f"{len(held):,} of the {len(train):,} training images, so many of each class"
        if dataset.kind == ZERO_SHOT:
            what += f" (whole classes only where there are {LEAST_CLASSES} or more)"
    if len(held) < 2 or len(np.unique(train.labels[held])) < 2:
        return (
            train,
            None,
            f"There is no validation part: --validation {settings.validation:g} would hold out {len(held)} images, too "
            "few to judge by. All epochs are trained, and the last one is kept.",
        )
    return train.take(kept), train.take(held), f"Validation: {what}."
