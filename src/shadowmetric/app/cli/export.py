"""`shadowmetric export`: a run as files that need no torch, with a report on what was lost."""

import importlib.util
import json as json_text
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from shadowmetric.errors import Mistake, Stopped

EXAMPLES = """\
Examples:

    shadowmetric export runs/glyphs-shadow-0
    shadowmetric export runs/glyphs-shadow-0 --no-int8 --out models
    shadowmetric export runs/glyphs-shadow-0 --bundle device --gallery photos
"""
NEEDED = ("onnx", "onnxruntime", "onnxscript")
Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Place = Annotated[Path | None, Parameter(show_default=False)]


app = App(name="export", usage="Usage: shadowmetric export RUN [OPTIONS]", help_epilogue=EXAMPLES)


@app.default
def export(
    run: Path,
    /,
    *,
    out: Place = None,
    int8: bool = True,
    limit: float = 0.01,
    accept_loss: Flag = False,
    images: int = 2000,
    bundle: Place = None,
    gallery: Place = None,
    data_root: Place = None,
    json: Flag = False,
) -> None:
    """Write ONNX files of a run, in float32 and in 8 bits, and compare them with torch.

    Scaling, normalizing and unit length are inside the files; their metadata says what they take. The 8-bit file is
    not written if its Recall@1 falls by more than the limit; the exit code is then 1.

    Parameters
    ----------
    run
        The folder of a trained run.
    out
        The folder of the files. Default: export in the run's folder.
    int8
        Write the 8-bit file too; the ranges of its numbers come from 256 training images.
    limit
        How much lower its Recall@1 may be than torch's, as a share: 0.01 is one point.
    accept_loss
        Write the 8-bit file whatever it loses.
    images
        Compare on at most so many test images.
    bundle
        Write a folder for a small device: model, index, threshold, and a program that needs no torch.
    gallery
        What the bundle's index holds: a folder of images, or a CSV file with the columns path and label.
    data_root
        Where the dataset of the run is, if not where it was trained.
    json
        Print the figures as JSON.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise Mistake(f"{', '.join(missing)} is not installed; run `pip install 'shadowmetric[export]'`.")
    if (bundle is None) != (gallery is None):
        raise Mistake("--bundle DIR and --gallery FOLDER belong together; give both, or neither.")
    from shadowmetric.app import serving
    from shadowmetric.app.cli.tables.export import print_parity
    from shadowmetric.progress import Bar

    with Bar() as bar:
        exported = serving.export(
            run,
            out,
            bundle=bundle,
            gallery=gallery,
            data_root=data_root,
            tell=bar,
            int8=int8,
            limit=limit,
            accept=accept_loss,
            images=images,
        )
    bundled = exported.bundle
    if json:
        print_json({**exported.plain(), "bundle": None if bundled is None else plain_bundle(bundled)})
    else:
        print_parity(exported)
        if bundled is not None:
            print_bundle(bundled)
    if exported.refusal is not None:
        raise Stopped(exported.refusal)


def print_json(payload: dict[str, Any]) -> None:
    """Print JSON, and nothing else, on standard output."""
    from shadowmetric.app.cli.screen import screen
    from shadowmetric.runtime.files import without_nan

    screen().out(json_text.dumps(without_nan(payload), indent=2, allow_nan=False), highlight=False)


def plain_bundle(bundled: Any) -> dict[str, Any]:
    """Return what was written into a bundle as JSON has it."""
    from dataclasses import asdict

    return {**asdict(bundled), "folder": str(bundled.folder)}


def print_bundle(bundled: Any) -> None:
    """Say what the bundle holds and how it starts."""
    from shadowmetric.app.cli.screen import say, screen

    console = screen()
    for sentence in (*bundled.broken, *bundled.notes):
        say(console, sentence)
    say(
        console,
        f"The bundle is {bundled.folder}, {bundled.bytes / 1e6:.1f} MB: the {bundled.model} model and an index of "
        f"{bundled.images:,} images. In it, `python -m device search IMAGE` needs no torch.",
    )
