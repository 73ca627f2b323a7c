"""What a page shows of a run beyond its figures: neighbors of queries, points, confused classes, augmented images.

All of it is computed from the best weights on the test split, once, and kept in the run's folder as showcase.json
(images included, as text). It is computed again if the weights, the settings or the choices are others.

Memory: the embeddings of the test split and of what votes, the scratch of an evaluation, and the images shown.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from shadowmetric.app.compare.floors import recall_of_floors
from shadowmetric.app.data.thumbnails import Sheet, sheet_of
from shadowmetric.app.report.showcase.augmented import augmented_of
from shadowmetric.app.report.showcase.confusion import Confused, confusion_of
from shadowmetric.app.report.showcase.gallery import Neighbor, Query, gallery_of
from shadowmetric.app.report.showcase.tsne import Points, points_of, sample
from shadowmetric.app.training.preparation import Parts, parts_of
from shadowmetric.app.training.runs.run import Run
from shadowmetric.app.training.runs.settings import as_plain
from shadowmetric.app.training.runs.trained import load_embedder
from shadowmetric.app.training.scoring import embed, parts_to_score
from shadowmetric.evaluation import Scores, evaluate
from shadowmetric.progress import Report
from shadowmetric.runtime.files import write_text
from shadowmetric.runtime.threshold import DIGEST, digest_of

FILE = "showcase.json"
FORMAT = 3
NEIGHBORS_THAT_VOTE = 5  # as in the scores
OF_THE_LOSS = ("loss", "margin", "miner", "seed")  # settings that do not change which images there are
SHARES = {"reading": 0.0, "embedding": 0.2, "neighbors": 0.6, "t-SNE": 0.7, "images": 0.95}  # of the time, about


@dataclass(frozen=True)
class Choices:
    """How much is shown."""

    queries: int = 6  # of each kind
    neighbors: int = 8  # of each query
    points: int = 1500
    perplexity: float = 30.0
    classes: int = 20  # of the confusion
    side: int = 64  # pixels of an image
    point_side: int = 32  # pixels of an image of a point
    seed: int = 0


@dataclass(frozen=True)
class Showcase:
    """What is shown of one run."""

    gallery: tuple[Query, ...]
    points: Points | None
    sheet: Sheet | None  # the images of the points, in their order
    confusion: Confused
    classes: tuple[str, ...]  # names, by label
    augmented: Sheet | None  # training images, and below each what training made of it
    floors: dict[str, float]  # Recall@1 of what was never trained, by name


class Album:
    """The images that were read last: runs of one dataset need them once."""

    def __init__(self):
        self.key: dict[str, Any] = {}
        self.parts: Parts | None = None

    def parts_of(self, run: Run, report: Report) -> Parts:
        """Return the images of a run."""
        key = {name: value for name, value in as_plain(run.settings()).items() if name not in OF_THE_LOSS}
        if self.parts is None or key != self.key:
            self.parts = None  # two datasets need not fit into memory
            self.parts, self.key = parts_of(run, report=report), key
        return self.parts


def showcase_of(
    run: Run, choices: Choices | None = None, *, album: Album | None = None, tell: Report | None = None
) -> Showcase:
    """Return the showcase of a run: the one in its folder if it still holds, else a new one."""
    choices = choices or Choices()
    showcase = load_showcase(run, choices)
    if showcase is None:
        embedder = load_embedder(run)
        stages = Stages(tell)
        parts = (album or Album()).parts_of(run, stages("reading", "embedding"))
        if torch.accelerator.is_available() and run.settings().device != "cpu":
            embedder = embedder.to(torch.accelerator.current_accelerator())
        progress = stages("embedding", "neighbors")
        rows = {
            name: embed(embedder, split, parts.shape, report=progress)
            for name, split in parts_to_score(parts.dataset).items()
        }
        showcase = make_showcase(rows, parts, choices, stages)
        record = json.loads(json.dumps({"key": key_of(run, choices), "showcase": asdict(showcase)}))
        write_text(run.folder / FILE, json.dumps(record | {DIGEST: digest_of(record)}))
    return showcase


def make_showcase(rows: dict[str, Tensor], parts: Parts, choices: Choices, stages: "Stages") -> Showcase:
    """Return what is shown of the embeddings of each part."""
    dataset, test = parts.dataset, parts.dataset.test
    progress = stages("neighbors", "t-SNE")
    searched = search(rows, parts, "gallery", choices.neighbors, ("map_at_r", "reciprocal_rank", "accuracy"), progress)
    voters = next(name for name in ("train", "gallery", "test") if name in rows)
    voted = search(rows, parts, voters, NEIGHBORS_THAT_VOTE, ("accuracy",), progress)
    assert searched.vote is not None
    assert voted.report is not None
    words = {"train": "training images", "gallery": "gallery images", "test": "other test images"}[voters]
    confusion = confusion_of(voted.report, dataset.classes, choices.classes, NEIGHBORS_THAT_VOTE, words)
    stages("t-SNE", "images")
    right = (searched.gallery_labels[searched.vote.row[:, 0]] == searched.labels) & searched.vote.known
    numbers = sample(len(test), choices.points, choices.seed)
    points = points_of(rows["test"].numpy(), test.labels, right.tolist(), numbers, choices.perplexity, choices.seed)
    stages("images", "")
    sheet = None if points is None else sheet_of(test.images, points.numbers, choices.point_side)
    gallery = gallery_of(searched, dataset, choices.queries, choices.side, choices.seed)
    augmented = augmented_of(parts, choices.side)
    return Showcase(tuple(gallery), points, sheet, confusion, dataset.classes, augmented, recall_of_floors(parts))


def search(
    rows: dict[str, Tensor], parts: Parts, where: str, neighbors: int, measures: tuple[str, ...], progress: Report
) -> Scores:
    """Search the test images in another part; among themselves if that is not there."""
    splits = parts.dataset.parts()
    gallery = rows.get(where) if where != "test" else None
    labels = None if gallery is None else torch.from_numpy(splits[where].labels)
    own = torch.from_numpy(splits["test"].labels)
    options = {"gallery": gallery, "gallery_labels": labels, "neighbors": neighbors, "measures": measures}
    return evaluate(rows["test"], own, progress=progress, **options)


def key_of(run: Run, choices: Choices) -> dict[str, Any]:
    """Return all that decides a showcase."""
    with run.best_file.open("rb") as file:
        weights = hashlib.file_digest(file, "sha256").hexdigest()
    return {"format": FORMAT, "weights": weights, "settings": as_plain(run.settings()), "choices": asdict(choices)}


def load_showcase(run: Run, choices: Choices) -> Showcase | None:
    """Return the showcase in the run's folder; None if there is none, or it is of other weights, settings, choices.

    None, too, if it is not as it was written: it is computed again then, and nobody has to know.
    """
    try:
        document = json.loads((run.folder / FILE).read_text(encoding="utf-8"))
        digest = document.pop(DIGEST)
        if digest != digest_of(document) or document["key"] != key_of(run, choices):
            return None
        return from_plain(document["showcase"])
    except (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError):
        return None


def from_plain(document: dict[str, Any]) -> Showcase:
    """Return a showcase that was read from a file."""
    gallery = tuple(
        Query(**(query | {"neighbors": tuple(Neighbor(**one) for one in query["neighbors"])}))
        for query in document["gallery"]
    )
    points = None if document["points"] is None else Points(**document["points"])
    sheet, augmented = (None if document[name] is None else Sheet(**document[name]) for name in ("sheet", "augmented"))
    confusion, classes = Confused(**document["confusion"]), tuple(document["classes"])
    return Showcase(gallery, points, sheet, confusion, classes, augmented, document["floors"])


class Stages:
    """The share of the whole that each stage begins at."""

    def __init__(self, tell: Report | None):
        self.tell = tell

    def __call__(self, stage: str, following: str) -> Report:
        """Begin a stage; return what is told its own share."""
        begin, end = SHARES[stage], SHARES.get(following, 1.0)

        def report(what: str, share: float) -> None:
            if self.tell is not None:
                self.tell(stage, begin + (end - begin) * share)

        report(stage, 0.0)
        return report
