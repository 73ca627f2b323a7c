"""From a run to its use: export, index, search, verify, serve. The commands of the same names call what these call.

```python
from shadowmetric.app import serving

serving.export("runs/birds")  # ONNX files, and what they lost
serving.export("runs/birds", bundle="device", pictures="photos")  # all that a small device needs
serving.index("runs/birds", "photos", "photos.shadowmx")
serving.search("photos.shadowmx", ["photo.jpg"])[0].hits
serving.verify("runs/birds", "photo.jpg", "other.jpg").same
```

`serve("photos.shadowmx")` then answers until Ctrl-C. `tell`, where there is one, hears what is being done and the
share of it that is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shadowmetric.errors import Mistake
from shadowmetric.progress import Report

if TYPE_CHECKING:
    from shadowmetric.app.serving.exporting.export import Exported
    from shadowmetric.app.serving.indexing.build import Indexed
    from shadowmetric.app.serving.searching.search import Answer
    from shadowmetric.app.serving.stores.filling import Filled
    from shadowmetric.runtime.threshold import Decision

Place = str | Path


def export(
    run: Place,
    out: Place | None = None,
    *,
    bundle: Place | None = None,
    pictures: Place | None = None,
    tell: Report | None = None,
    **settings: Any,
) -> Exported:
    """Write ONNX files of a run; settings are those of `exporting.export`: int8, limit, accept, images.

    bundle: a folder for all that a small device needs, with an index of `pictures`, a folder or a table.
    """
    from shadowmetric.app.serving.exporting.bundle import check_place, write_bundle
    from shadowmetric.app.serving.exporting.export import export as write
    from shadowmetric.app.training.runs.run import Run

    if (bundle is None) != (pictures is None):
        raise Mistake("bundle and pictures belong together; give both, or neither.")
    if bundle is not None:
        check_place(Path(bundle))
    exported = write(Run(Path(run)), None if out is None else Path(out), tell=tell, **settings)
    if bundle is not None and pictures is not None:
        write_bundle(Run(Path(run)), exported, Path(bundle), Path(pictures), tell=tell)
    return exported


def index(
    run: Place,
    pictures: Place,
    out: Place,
    *,
    approximate: str | None = None,
    batch: int = 32,
    tell: Report | None = None,
) -> Indexed | Filled:
    """Embed the pictures of a folder or a table into a file, or into a vector store if `out` is an address of one."""
    from shadowmetric.app.serving.galleries.gallery import is_store
    from shadowmetric.app.serving.indexing.listing import list_pictures
    from shadowmetric.app.serving.model import open_model

    listing, model = list_pictures(Path(pictures)), open_model(Path(run))
    if is_store(str(out)):
        from shadowmetric.app.serving.stores.filling import fill_store

        return fill_store(model, listing, str(out), tell=tell, batch=batch)
    from shadowmetric.app.serving.indexing.build import build_index

    return build_index(model, listing, Path(out), approximate=approximate, batch=batch, tell=tell)


def search(
    index: Place, pictures: Sequence[Place], k: int = 10, *, label: str | None = None, model: Place | None = None
) -> list[Answer]:
    """Return the k most similar indexed pictures of each; label: of one class; model: if it is not where it was."""
    from shadowmetric.app.serving.galleries.gallery import file_of, open_gallery
    from shadowmetric.app.serving.model import model_of
    from shadowmetric.app.serving.searching.search import search as find

    gallery = open_gallery(str(index))
    try:
        embedder = model_of(gallery.about, file_of(str(index)), None if model is None else Path(model))
        return list(find(gallery, embedder, [Path(picture) for picture in pictures], k, label=label))
    finally:
        gallery.close()


def verify(
    run: Place,
    first: Place,
    second: Place,
    rate: float = 0.01,
    *,
    data_root: Place | None = None,
    tell: Report | None = None,
) -> Decision:
    """Return whether two pictures show the same, at the threshold that takes at most so many pairs of two for one."""
    from shadowmetric.app.serving.model import open_model
    from shadowmetric.app.serving.places import check_run
    from shadowmetric.app.serving.verification.calibration import calibrate
    from shadowmetric.app.serving.verification.verifying import check_rate, cosine_of
    from shadowmetric.app.training.runs.run import Run

    check_rate(rate)
    check_run(Path(run), "; the threshold is measured on its test images")
    model = open_model(Path(run))
    cosine = cosine_of(model, Path(first), Path(second))
    root = None if data_root is None else Path(data_root)
    return calibrate(Run(Path(run)), model, data_root=root, tell=tell).decide(cosine, rate)


def serve(
    index: Place,
    *,
    model: Place | None = None,
    pictures: Place | None = None,
    begun: Callable[[str, int], None] | None = None,
    **settings: Any,
) -> None:
    """Serve an index until Ctrl-C; settings are those of `ServeSettings`; begun: told the address, when it answers."""
    from shadowmetric.app.serving.server.index import serve_index
    from shadowmetric.app.serving.server.settings import ServeSettings

    moved = (None if place is None else Path(place) for place in (model, pictures))
    serve_index(str(index), ServeSettings(**settings), *moved, begun=begun)
