"""`shadowmetric search`: which indexed images are most like these."""

import json as as_json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from shadowmetric.app.cli import one_line
from shadowmetric.errors import Mistake, Stopped

if TYPE_CHECKING:
    from shadowmetric.app.serving.searching.search import Answer

EXAMPLES = """\
Examples:

    shadowmetric search birds.shadowmx photo.jpg
    shadowmetric search birds.shadowmx *.jpg --top 5 --json > found.json
    shadowmetric search birds.shadowmx photo.jpg --class 018.Spotted_Catbird --html found.html
    shadowmetric search 'postgresql://me@localhost/shop?table=birds' photo.jpg
"""
Flag = Annotated[bool, Parameter(negative="", show_default=False)]


app = App(name="search", usage="Usage: shadowmetric search INDEX IMAGE... [OPTIONS]", help_epilogue=EXAMPLES)


@app.default
def search(
    index: Annotated[str | None, Parameter(show_default=False)] = None,
    /,
    *images: Path,
    top: int = 10,
    label: Annotated[str | None, Parameter(name="--class", show_default=False)] = None,
    model: Annotated[Path | None, Parameter(show_default=False)] = None,
    shown_from: Annotated[Path | None, Parameter(name="--images", show_default=False)] = None,
    json: Flag = False,
    html: Annotated[Path | None, Parameter(show_default=False)] = None,
    thumbnails: Annotated[bool | None, Parameter(show_default=False)] = None,
    unknown_accept_rate: Annotated[float | None, Parameter(show_default=False)] = None,
) -> None:
    """Find the indexed images that are most like these; the score is the cosine of two embeddings, at most 1.

    Parameters
    ----------
    index
        A file that `shadowmetric index` wrote, or the address of a vector store that it filled.
    images
        The images to search for.
    top
        How many to find for each.
    label
        Search among the images of this class alone.
    model
        The run or .onnx file that made the index, if it is no longer where it was.
    shown_from
        The indexed folder, if it is no longer where it was: small images are shown from there.
    json
        Print JSON instead of a table.
    html
        Write a page with the images, too.
    thumbnails
        Show small images in the terminal. Default: if it has the colors.
    unknown_accept_rate
        Of images that show nothing of the catalog, the share that may pass for something that is there.
        Default: about as many as are wrongly refused.
    """
    from shadowmetric.app import serving
    from shadowmetric.progress import Bar

    if index is None or not images:
        raise Mistake("give an index and an image: `shadowmetric search INDEX IMAGE`.")
    if top < 1:
        raise Mistake(f"--top is {top}; it must be 1 or more.")
    if html is not None and os.path.isdir(html):
        raise Mistake(f"--html {str(html)!r} is a folder; name a file, such as {str(html / 'found.html')!r}.")
    broken: list[str] = []
    with Bar() as bar:
        answers = serving.search(
            index,
            images,
            top,
            label=label,
            model=model,
            shown_from=shown_from,
            unknown_accept_rate=unknown_accept_rate,
            broken=broken,
            tell=bar,
        )
    root = answers[0].root if answers else ""
    if json:
        print(as_json.dumps([plain(answer) for answer in answers], indent=2))
    elif answers:
        from shadowmetric.app.cli.tables.search import show_answers

        show_answers(answers, root, thumbnails)
    if html is not None and answers:
        write_page(html, answers, root, index_title(index))
        print(f"The page is {one_line(str(html))}", file=sys.stderr if json else sys.stdout)
    end(broken, len(images))


def plain(answer: "Answer") -> dict[str, Any]:
    """Return an answer as JSON has it."""
    hits = [hit.entry._asdict() | {"similarity": round(hit.similarity, 6)} for hit in answer.hits]
    found: dict[str, Any] = {"query": str(answer.query), "hits": hits}
    if answer.decision is not None:
        found |= asdict(answer.decision)
    return found | {"classes": [vote._asdict() for vote in answer.classes]}


def write_page(html: Path, answers: "list[Answer]", root: str, name: str) -> None:
    """Write the page with the images."""
    from shadowmetric.app.serving.searching.answers_page import page_of
    from shadowmetric.runtime.files import write_text

    try:
        write_text(html, page_of(answers, root, f"Searched in {name}"))
    except OSError as error:
        raise Mistake(f"--html {str(html)!r} cannot be written ({error.strerror}); name another file.") from None


def index_title(index: str) -> str:
    """Return what to call an index."""
    from shadowmetric.app.serving.galleries.gallery import is_store
    from shadowmetric.app.serving.stores.address import without_secrets

    return without_secrets(index) if is_store(index) else Path(index).name


def end(broken: list[str], count: int) -> None:
    """Name the images that could not be searched for; that is an error."""
    if len(broken) == count == 1:
        raise Mistake(broken[0])
    for sentence in broken:
        print(one_line(sentence), file=sys.stderr)
    if broken:
        raise Stopped(f"{len(broken)} of {count} images cannot be read.")
