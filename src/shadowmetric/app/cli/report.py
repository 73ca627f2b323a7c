"""`shadowmetric report`: runs and comparisons on one page."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from shadowmetric.errors import Mistake

EXAMPLES = """\
Examples:

    shadowmetric report runs/compare-glyphs
    shadowmetric report runs/glyphs-shadow-0 runs/glyphs-triplet-0 --out both.html
    shadowmetric report runs --no-images
"""
NEEDED = ("jinja2", "plotly")
NEEDED_FOR_IMAGES = ("openTSNE",)


app = App(name="report", usage="Usage: shadowmetric report RUN... [OPTIONS]", help_epilogue=EXAMPLES)


@app.default
def report(
    *runs: Path,
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    images: bool = True,
) -> None:
    """Draw runs and comparisons on one page: tables, curves, neighbors, t-SNE, confusion. It needs no network.

    What must be computed from the weights, for one run of each loss, is kept in the run's folder.

    Parameters
    ----------
    runs
        Folders of runs or comparisons, or folders that hold such folders.
    out
        The page. Default: report.html in the first folder.
    images
        Show neighbors, t-SNE and confusion, which embeds the test split of one run of each loss.
    """
    from shadowmetric.app.cli.screen import say, screen
    from shadowmetric.progress import Bar

    if not runs:
        raise Mistake("no folder is named; write `shadowmetric report RUN`, where RUN is a run or a comparison.")
    place = page_place(runs, out, images=images)
    from shadowmetric.app.report.making import write_report

    with Bar() as bar:
        size = write_report(runs, place, images=images, tell=bar)
    say(screen(), describe_page(place, size))


def page_place(folders: Sequence[Path], out: Path | None, *, images: bool) -> Path:
    """Return where the page goes, or refuse what stands against it."""
    needed = (*NEEDED, *(NEEDED_FOR_IMAGES if images else ()))
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise Mistake(f"{', '.join(missing)} is not installed; run `pip install 'shadowmetric[report]'`.")
    place = out or folders[0] / "report.html"
    if place.is_dir():
        raise Mistake(f"--out {str(place)!r} is a folder; name a file, such as {str(place / 'report.html')!r}.")
    return place


def describe_page(place: Path, size: int) -> str:
    """Return the sentence about a page that was written."""
    return f"The page is {place}, {size / 1e6:.1f} MB; it opens in any browser, without a network."
