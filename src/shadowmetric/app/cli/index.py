"""`shadowmetric index`: images of a folder or a table, embedded and ready to be searched."""

import os
import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from shadowmetric.app.data.preprocessing import SIZE
from shadowmetric.app.serving import BATCH, ENDING
from shadowmetric.errors import Interrupted, Mistake

EXAMPLES = """\
Examples; a second call embeds only what has changed:

    shadowmetric index runs/birds photos
    shadowmetric index runs/birds photos.csv --approximate hnsw
    shadowmetric index runs/birds/export/model-int8.onnx photos
    shadowmetric index --backbone timm:tf_efficientnet_lite0 --weights lite0.safetensors photos
    shadowmetric index runs/birds photos --to qdrant://localhost/birds
    shadowmetric index runs/birds photos --to 'postgresql://me@db/shop'
"""


app = App(name="index", usage="Usage: shadowmetric index RUN FOLDER|TABLE.csv [OPTIONS]", help_epilogue=EXAMPLES)


@app.default
def index(
    run: Annotated[Path | None, Parameter(show_default=False)] = None,
    images: Annotated[Path | None, Parameter(show_default=False)] = None,
    /,
    *,
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    to: Annotated[str | None, Parameter(show_default=False)] = None,
    approximate: Annotated[str | None, Parameter(show_default=False)] = None,
    batch: int = BATCH,
    threshold: bool = True,
    data_root: Annotated[Path | None, Parameter(show_default=False)] = None,
    backbone: Annotated[str | None, Parameter(show_default=False)] = None,
    weights: Annotated[str | None, Parameter(show_default=False)] = None,
    size: Annotated[int | None, Parameter(show_default=False)] = None,
) -> None:
    """Embed images so that they can be searched. Called again, it embeds only those whose bytes are new.

    The index is one file, which is replaced as a whole: a kill leaves the old one. Images that are gone from the
    folder are gone from the index; those that cannot be read are named and left out.

    Parameters
    ----------
    run
        The folder of a run, or an .onnx file that `shadowmetric export` wrote.
    images
        A folder, whose first folders are the classes; or a table with the columns path and, if there is one, label.
    out
        The index. Default: the name of the folder or table, with .shadowmx, here; if that is the index of another
        folder, it is refused.
    to
        Write into a vector store instead: qdrant://HOST/COLLECTION or postgresql://HOST/DATABASE?table=NAME.
    approximate
        Search that does not look at every row: hnsw or ivf; none for exact search. Default: as the index is, else
        exact.
    batch
        Images that are embedded at once.
    threshold
        Measure, once, on the run's test images from where on an image shows nothing that is in the catalog.
    data_root
        Where the run's dataset lies, if it has moved; needed once, for that.
    backbone
        In the place of RUN, and without training: the pooled features of timm:NAME, resnet18, googlenet or vgg16. The
        model is a folder beside the index.
    weights
        Of that backbone: a file, or pretrained. Default: pretrained.
    size
        Of that backbone: pixels of the square that it sees. Default: 224.
    """
    from shadowmetric.app import serving
    from shadowmetric.app.cli.tables.index import say_filled, say_indexed
    from shadowmetric.app.serving.indexing.build import Indexed
    from shadowmetric.progress import watch

    if backbone is not None and run is not None and images is None:
        from shadowmetric.app.training.features.pooled_run import pooled_run

        run, images, threshold = None, run, False  # there are no test images to measure a threshold on
        beside = out or serving.default_index(images)
        run = pooled_run(beside.with_name(f"{beside.stem}-model"), images, backbone, weights, size or SIZE).folder
    elif (backbone, weights, size) != (None, None, None):
        raise Mistake(
            "--backbone takes the place of a run: `shadowmetric index --backbone NAME --weights FILE FOLDER`."
        )
    if run is None or images is None:
        raise Mistake("give a run and a folder: `shadowmetric index RUN FOLDER`.")
    check(out, to, approximate, batch)
    try:
        with watch() as bar:
            made = serving.index(
                run,
                images,
                to or out,
                approximate=approximate,
                batch=batch,
                threshold=threshold,
                data_root=data_root,
                tell=bar,
            )
    except KeyboardInterrupt:
        raise Interrupted(again(run, images, out, to, approximate, batch, threshold, data_root)) from None
    if isinstance(made, Indexed):
        say_indexed(made, out or serving.default_index(images))
    else:
        say_filled(made, str(to))


def check(out: Path | None, to: str | None, approximate: str | None, batch: int) -> None:
    """Refuse options that make no sense, before anything is read."""
    from shadowmetric.app.serving.galleries.gallery import STORES, is_store
    from shadowmetric.app.serving.stores.address import beginning

    if batch < 1:
        raise Mistake(f"--batch is {batch}; it must be 1 or more.")
    if out is not None and os.path.isdir(out):  # is_dir() fails if a name is too long
        raise Mistake(f"--out {str(out)!r} is a folder; name a file, such as {str(out / ('index' + ENDING))!r}.")
    if out is not None and out.parts[:1] in [(name.rstrip("/"),) for name in STORES]:
        raise Mistake("--out is a file; write into a vector store by --to.")
    if to is not None and not is_store(to):
        raise Mistake(f"--to is {beginning(to)!r}; give an address that begins with {' or '.join(STORES)}.")
    if to is not None and (out is not None or approximate is not None):
        raise Mistake("--to writes into a vector store, which has a search of its own; leave --out and --approximate.")
    if approximate is not None:
        from shadowmetric.app.serving.galleries.approximate import check_kind
        from shadowmetric.app.serving.indexing.build import EXACT

        if approximate != EXACT:
            check_kind(approximate)


def again(
    run: Path,
    images: Path,
    out: Path | None,
    to: str | None,
    approximate: str | None,
    batch: int,
    threshold: bool,
    data_root: Path | None,
) -> str:
    """Return the command that goes on; what is secret in an address must be written again."""
    from shadowmetric.app.serving.stores.address import without_secrets

    words = ["shadowmetric", "index", os.fspath(run), os.fspath(images)]
    for name, value in (
        ("--out", out),
        ("--to", to and without_secrets(to)),
        ("--approximate", approximate),
        ("--data-root", data_root),
    ):
        words += [name, str(value)] if value is not None else []
    words += [] if batch == BATCH else ["--batch", str(batch)]
    words += [] if threshold else ["--no-threshold"]
    return shlex.join(words)
