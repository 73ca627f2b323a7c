"""From a run to its use: export, index, search, verify, serve. The commands of the same names call what these call.

```python
from shadowmetric.app import serving

serving.export("runs/birds")  # ONNX files, and what they lost
serving.export("runs/birds", bundle="device", gallery="photos")  # all that a small device needs
serving.index("runs/birds", "photos", "photos.shadowmx")
serving.search("photos.shadowmx", ["photo.jpg"])[0].hits
serving.verify("runs/birds", "photo.jpg", "other.jpg").same
serving.verify_in_folder("runs/birds", "photo.jpg", "photos").classes
```

`serve("photos.shadowmx")` then answers until Ctrl-C. `tell`, where there is one, hears what is being done and the
share of it that is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from shadowmetric.errors import Mistake
from shadowmetric.progress import Report, silent
from shadowmetric.runtime.threshold import EVEN

if TYPE_CHECKING:
    from shadowmetric.app.serving.exporting.export import Exported
    from shadowmetric.app.serving.indexing.build import Indexed
    from shadowmetric.app.serving.searching.search import Answer
    from shadowmetric.app.serving.server.settings import ServeSettings
    from shadowmetric.app.serving.stores.filling import Filled
    from shadowmetric.app.serving.verification.against_folder import FolderAnswer
    from shadowmetric.app.serving.verification.verifying import Verified

Place = str | Path
BATCH = 32
ENDING = ".shadowmx"


def export(
    run: Place,
    out: Place | None = None,
    *,
    bundle: Place | None = None,
    gallery: Place | None = None,
    int8: bool = True,
    limit: float | None = None,
    accept: bool = False,
    images: int | None = None,
    data_root: Place | None = None,
    tell: Report | None = None,
) -> Exported:
    """Write ONNX files of a run: float32, and int8 unless that is False.

    limit: what int8 may lose of Recall@1 before it is refused, 0.01 by default; accept: write it all the same.
    images: test images at most that the models are compared on; by default all.
    bundle: a folder for all that a small device needs, with an index of `gallery`, a folder or a table; what was
    written there is then `bundle` of what is returned.
    """
    from shadowmetric.app.serving.exporting.bundle import check_place, write_bundle
    from shadowmetric.app.serving.exporting.export import LIMIT
    from shadowmetric.app.serving.exporting.export import export as write
    from shadowmetric.app.serving.indexing.listing import list_images
    from shadowmetric.app.training.runs.run import Run

    if (bundle is None) != (gallery is None):
        raise Mistake("bundle and gallery belong together; give both, or neither.")
    if bundle is not None and gallery is not None:  # what can be refused is refused before the work
        check_place(Path(bundle))
        list_images(Path(gallery))
    root = path_of(data_root)
    exported = write(
        Run(Path(run)),
        path_of(out),
        int8=int8,
        limit=LIMIT if limit is None else limit,
        accept=accept,
        images=images,
        data_root=root,
        tell=tell,
    )
    if bundle is None or gallery is None:
        return exported
    bundled = write_bundle(Run(Path(run)), exported, Path(bundle), Path(gallery), data_root=root, tell=tell)
    return replace(exported, bundle=bundled)


def index(
    run: Place,
    images: Place,
    out: Place | None = None,
    *,
    approximate: str | None = None,
    batch: int = BATCH,
    threshold: bool = True,
    data_root: Place | None = None,
    tell: Report | None = None,
) -> Indexed | Filled:
    """Embed the images of a folder or a table into a file, or into a vector store if `out` is an address of one.

    out: by default what `default_index` says, which is refused if it is the index of another folder.
    threshold: measure once, on the run's test images, from where on an image shows nothing that is in the catalog.
    """
    from shadowmetric.app.serving.galleries.gallery import is_store
    from shadowmetric.app.serving.indexing.listing import list_images
    from shadowmetric.app.serving.model import open_model

    if tell is not None:
        tell("listing images", 0.0)
    listing, model = list_images(Path(images)), open_model(Path(run))
    notes: list[str] = []
    if threshold:
        from shadowmetric.app.serving.verification.catalog import add_threshold

        add_threshold(Path(run), model, notes, data_root=path_of(data_root), tell=tell)
    if out is not None and is_store(str(out)):
        from shadowmetric.app.serving.stores.filling import fill_store

        filled = fill_store(model, listing, str(out), tell=tell, batch=batch)
        filled.notes[:0] = [*listing.notes, *notes]
        return filled
    from shadowmetric.app.serving.indexing.build import build_index, check_same_folder

    if out is None:
        out = default_index(images)
        check_same_folder(out, listing)
    made = build_index(model, listing, Path(out), approximate=approximate, batch=batch, tell=tell)
    made.notes.extend(notes)
    return made


def default_index(images: Place) -> Path:
    """Return the index of a folder or a table, in the folder that one is in."""
    place = Path(images).resolve()
    return Path((place.name if place.is_dir() else place.stem) + ENDING)


def search(
    index: Place,
    images: Sequence[Place],
    k: int = 10,
    *,
    label: str | None = None,
    model: Place | None = None,
    shown_from: Place | None = None,
    unknown_accept_rate: float | None = None,
    broken: list[str] | None = None,
    tell: Report | None = None,
) -> list[Answer]:
    """Return the k most similar indexed images of each; label: of one class; model: if it is not where it was.

    Without a label an answer has the classes that the nearest images vote for, and whether the image is in the catalog
    at all. unknown_accept_rate: of images that show nothing of it, the share that may pass; by default both errors are
    about equal. shown_from: the indexed folder, if it is not where it was. broken: gets a sentence for each image that
    cannot be read, which is refused otherwise.
    """
    from shadowmetric.app.serving.galleries.elsewhere import open_with_images
    from shadowmetric.app.serving.galleries.gallery import file_of
    from shadowmetric.app.serving.model import model_of
    from shadowmetric.app.serving.searching.search import search as find

    tell = tell or silent
    tell("opening the index", 0.0)
    gallery = open_with_images(str(index), path_of(shown_from))
    try:
        embedder = model_of(gallery.about, file_of(str(index)), path_of(model))
        answers = []
        for answer in find(
            gallery,
            embedder,
            [Path(one) for one in images],
            k,
            label=label,
            unknown_accept_rate=unknown_accept_rate,
            broken=broken,
        ):
            answers.append(answer)
            tell("searching", len(answers) / len(images))
        return answers
    finally:
        gallery.close()


def verify(
    run: Place,
    first: Place,
    second: Place,
    false_accept_rate: float | None = None,
    *,
    prior: float = EVEN,
    data_root: Place | None = None,
    notes: list[str] | None = None,
    tell: Report | None = None,
) -> Verified:
    """Return whether two images show the same, by the probability that they do.

    prior: the share of the pairs that you compare that show the same. false_accept_rate: decide at the threshold that
    takes at most this share of the pairs of two classes for one. notes: gets a sentence if what was measured could
    not be kept.
    """
    from shadowmetric.app.serving.model import open_model
    from shadowmetric.app.serving.places import check_run
    from shadowmetric.app.serving.verification.calibration import calibrate
    from shadowmetric.app.serving.verification.verifying import Verified, check_shares, cosine_of
    from shadowmetric.app.training.runs.run import Run

    check_shares(false_accept_rate, prior)
    check_run(Path(run), "; the threshold is measured on its test images")
    tell = tell or silent
    tell("opening the run", 0.0)
    model = open_model(Path(run))
    cosine = cosine_of(model, Path(first), Path(second))
    measured = calibrate(Run(Path(run)), model, data_root=path_of(data_root), tell=tell, notes=notes)
    return Verified(**asdict(measured.decide(cosine, false_accept_rate, prior)), calibration=measured)


def verify_in_folder(
    run: Place,
    image: Place,
    folder: Place,
    unknown_accept_rate: float | None = None,
    *,
    data_root: Place | None = None,
    notes: list[str] | None = None,
    tell: Report | None = None,
) -> FolderAnswer:
    """Return of which class of a folder an image is, by the vote of its nearest images, or that it is of none there.

    unknown_accept_rate: of images that show nothing of the folder, the share that may pass; by default both errors are
    about equal. notes: gets sentences on images that cannot be read, or why there is no threshold.
    """
    from shadowmetric.app.serving.model import open_model
    from shadowmetric.app.serving.places import check_run
    from shadowmetric.app.serving.verification.against_folder import compare_with_folder
    from shadowmetric.app.training.runs.run import Run

    check_run(Path(run), "; the threshold is measured on its test images")
    (tell or silent)("opening the run", 0.0)
    model = open_model(Path(run))
    return compare_with_folder(
        Run(Path(run)),
        model,
        Path(image),
        Path(folder),
        unknown_accept_rate,
        data_root=path_of(data_root),
        notes=notes,
        tell=tell,
    )


def serve(
    index: Place,
    settings: ServeSettings | None = None,
    *,
    model: Place | None = None,
    images: Place | None = None,
    begun: Callable[[str, int], None] | None = None,
) -> None:
    """Serve an index until Ctrl-C; begun: gets the address and the number of images, when it answers."""
    from shadowmetric.app.serving.server.index import serve_index
    from shadowmetric.app.serving.server.settings import ServeSettings

    serve_index(str(index), settings or ServeSettings(), path_of(model), path_of(images), begun=begun)


def path_of(place: Place | None) -> Path | None:
    """Return a place as a path."""
    return None if place is None else Path(place)
