"""What is evaluated of a run: a part of its dataset, embedded with its best weights."""

from pathlib import Path

from shadowmetric.app.cli.evaluation.input import Evaluated
from shadowmetric.app.cli.evaluation.settings import EvaluateSettings
from shadowmetric.app.data.dataset import Split
from shadowmetric.app.data.own.arrays import LabeledRows
from shadowmetric.app.training.preparation import Parts, parts_of
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.trained import load_embedder
from shadowmetric.app.training.scoring import embed
from shadowmetric.errors import Mistake
from shadowmetric.progress import Report, watch

PARTS = ("test", "validation", "train", "gallery")


def run_to_evaluate(folder: Path, settings: EvaluateSettings) -> Evaluated:
    """Return the embeddings of a part of the run's dataset, and of the gallery it is searched in, if any."""
    run = Run(folder)
    with watch() as bar:
        parts = parts_of(run, data=settings.data, data_root=settings.data_root, report=bar)
        against = settings.against or ("gallery" if settings.part == "test" and parts.dataset.gallery else None)
        if against == settings.part:
            raise Mistake(f"--against is {against!r}, the part that is measured; leave it out to search in the rest.")
        query = part_of(parts, settings.part, "--part")
        gallery = None if against is None else part_of(parts, against, "--against")
        embedder = load_embedder(run)

        def embedded(split: Split, report: Report) -> LabeledRows:
            return LabeledRows(embed(embedder, split, parts.shape, report=report).numpy(), split.labels)

        return Evaluated(
            file=folder,
            query=embedded(query, bar),
            gallery_file=None if against is None else folder / against,
            gallery=None if gallery is None else embedded(gallery, bar),
            class_names=list(parts.dataset.classes),
            row_names=tuple(query.images.name(row) for row in range(len(query))),
            gallery_names=() if gallery is None else tuple(gallery.images.name(row) for row in range(len(gallery))),
            note=note_of(run, settings),
        )


def part_of(parts: Parts, name: str, option: str) -> Split:
    """Return a part by name, with the labels of the dataset."""
    dataset = parts.dataset
    splits = {"test": dataset.test, "train": dataset.train, "gallery": dataset.gallery, "validation": parts.validation}
    if name not in splits:
        raise Mistake(f"{option} is {name!r}; choose one of {', '.join(PARTS)}.")
    split = splits[name]
    if split is None:
        there = ", ".join(part for part, one in splits.items() if one is not None)
        raise Mistake(f"{dataset.name} has no {name} part here; choose one of {there}.")
    return split


def note_of(run: Run, settings: EvaluateSettings) -> str:
    """Return what a reader must know of the run beside the figures."""
    scores = run.scores() or {}
    notes = [] if run.scores() else ["The run is not finished: these are its best weights so far."]
    if settings.part == "test" and run.settings().select_on == "test":
        notes.append("The best epoch was CHOSEN ON THE TEST SPLIT: these figures are too good.")
    if settings.part == "test" and settings.against is None and scores.get("accuracy_voters") == "training images":
        notes.append(
            f"By a vote of the training images, as in scores.json, accuracy is {100 * scores['accuracy']:.2f} % and "
            f"macro-F1 {100 * scores['macro_f1']:.2f} %; --against train measures that."
        )
    return " ".join(notes)
