"""Is what an image shows among the images of a folder, and of which class is it? Without an index.

    FOLDER/CLASS/...    the classes whose images vote (`runtime/votes.py`); a folder without folders is one class
    not in the catalog  the nearest image of the folder is farther than the threshold of the run (`catalog.py`),
                        measured with classes that were left out of the gallery, and with its two error rates

Every image of the folder is embedded at each call: for thousands, make an index once and `search` that.

Memory: the embeddings of the folder, and a few batches of its images.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shadowmetric.app.serving.indexing.embedding import embed_images
from shadowmetric.app.serving.indexing.listing import Listed, list_images
from shadowmetric.app.serving.model import Model
from shadowmetric.app.serving.verification.catalog import catalog_threshold
from shadowmetric.app.training.runs.run import Run
from shadowmetric.errors import BrokenImage
from shadowmetric.progress import Report
from shadowmetric.runtime.catalog import CatalogDecision
from shadowmetric.runtime.entries import Entry, Hit, key_of
from shadowmetric.runtime.exact_cosines import cosine
from shadowmetric.runtime.images import open_image
from shadowmetric.runtime.votes import VOTERS, ClassVote, count_votes, verdict


@dataclass(frozen=True)
class FolderAnswer:
    """What the images of a folder say of an image."""

    images: int  # that it was compared with
    nearest: Hit
    classes: list[ClassVote]  # by the vote of the nearest, best first
    decision: CatalogDecision | None  # None if the run's test images allow no threshold

    def words(self) -> list[str]:
        """Return the answer in sentences."""
        first = verdict(self.classes, self.decision)
        measured = []
        if self.decision is not None and self.decision.in_catalog:
            measured = [
                f"Its nearest image, {self.nearest.entry.path}, has cosine {self.decision.similarity:.3f}; from "
                f"{self.decision.threshold:.3f} on an image is in the catalog, which "
                f"{100 * self.decision.unknown_accept_rate:.1f} % of the images of absent classes reach and "
                f"{100 * self.decision.known_reject_rate:.1f} % of those of present classes miss."
            ]
        return [first, *measured]

    def plain(self) -> dict[str, Any]:
        """Return the answer as JSON has it."""
        known = {} if self.decision is None else asdict(self.decision)
        nearest = self.nearest.entry._asdict() | {"similarity": round(self.nearest.similarity, 6)}
        classes = [vote._asdict() for vote in self.classes]
        return {"images": self.images, "nearest": nearest, **known, "classes": classes}


def compare_with_folder(
    run: Run,
    model: Model,
    image: Path,
    folder: Path,
    rate: float | None = None,
    *,
    data_root: Path | None = None,
    notes: list[str] | None = None,
    tell: Report | None = None,
) -> FolderAnswer:
    """Return what the images of a folder say of an image.

    rate: of images of absent classes, the share that may pass. notes: gets a sentence why there is no threshold, and
    one for each image of the folder that cannot be read.
    """
    notes, broken = [] if notes is None else notes, []
    threshold = catalog_threshold(run, model, data_root=data_root, tell=tell, notes=notes)
    if threshold is not None:
        threshold.row_at(rate)  # refuses a rate that cannot be shown before the work
    query = model.embed(np.stack([model.about.shape.square(open_image(image), str(image))]))[0]
    listing, hits = list_images(folder), []
    for some in embed_images(model, listing.root, listing.images, broken=broken):
        hits += [Hit(entry_of(one.listed, folder), cosine(query, one.row)) for one in some]
        if tell is not None:
            tell("embedding the folder", len(hits) / len(listing.images))
    notes += broken
    if not hits:
        raise BrokenImage(f"none of the {len(listing.images)} images of {folder} can be read; the first: {broken[0]}")
    hits.sort(key=lambda hit: (-hit.similarity, hit.entry.path))
    decision = None if threshold is None else threshold.decide(hits[0].similarity, rate)
    return FolderAnswer(len(hits), hits[0], count_votes(hits[:VOTERS]), decision)


def entry_of(listed: Listed, folder: Path) -> Entry:
    """Return an image of the folder; one that lies in no folder of its own is of the class that the folder is."""
    return Entry(key_of(listed.path), listed.path, listed.label or folder.resolve().name)
