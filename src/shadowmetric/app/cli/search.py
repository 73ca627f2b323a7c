"""`shadowmetric search`: which indexed pictures are most like these."""

import json as as_json
import os
import sys
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


app = App(name="search", usage="Usage: shadowmetric search INDEX PICTURE... [OPTIONS]", help_epilogue=EXAMPLES)


@app.default
def search(
    index: Annotated[str | None, Parameter(show_default=False)] = None,
    /,
    *pictures: Path,
    top: int = 10,
    label: Annotated[str | None, Parameter(name="--class", show_default=False)] = None,
    model: Annotated[Path | None, Parameter(show_default=False)] = None,
    shown_from: Annotated[Path | None, Parameter(name="--pictures", show_default=False)] = None,
    json: Flag = False,
    html: Annotated[Path | None, Parameter(show_default=False)] = None,
    thumbnails: Annotated[bool | None, Parameter(show_default=False)] = None,
) -> None:
    """Find the indexed pictures that are most like these; the score is the cosine of two embeddings, at most 1.

    Parameters
    ----------
    index
        A file that `shadowmetric index` wrote, or the address of a vector store that it filled.
    pictures
        The pictures to search for.
    top
        How many to find for each.
    label
        Search among the pictures of this class alone.
    model
        The run or .onnx file that made the index, if it is no longer where it was.
    shown_from
        The indexed folder, if it is no longer where it was: small pictures are shown from there.
    json
        Print JSON instead of a table.
    html
        Write a page with the pictures, too.
    thumbnails
        Show small pictures in the terminal. Default: if it has the colours.
    """
    from shadowmetric.app import serving
    from shadowmetric.progress import Bar

    if index is None or not pictures:
        raise Mistake("give an index and a picture: `shadowmetric search INDEX PICTURE`.")
    if top < 1:
        raise Mistake(f"--top is {top}; it must be 1 or more.")
    if html is not None and os.path.isdir(html):
        raise Mistake(f"--html {str(html)!r} is a folder; name a file, such as {str(html / 'found.html')!r}.")
    broken: list[str] = []
    with Bar() as bar:
        answers = serving.search(
            index, pictures, top, label=label, model=model, shown_from=shown_from, broken=broken, tell=bar
        )
    root = answers[0].root if answers else ""
    if json:
        print(as_json.dumps([plain(answer) for answer in answers], indent=2))
    elif answers:
        from shadowmetric.app.cli.tables.search import show_answers

        show_answers(answers, root, thumbnails)
    if html is not None and answers:
        write_page(html, answers, root, shown(index))
        print(f"The page is {one_line(str(html))}", file=sys.stderr if json else sys.stdout)
    end(broken, len(pictures))


def plain(answer: "Answer") -> dict[str, Any]:
    """Return an answer as JSON has it."""
    hits = [hit.entry._asdict() | {"similarity": round(hit.similarity, 6)} for hit in answer.hits]
    return {"query": str(answer.query), "hits": hits}


def write_page(html: Path, answers: "list[Answer]", root: str, name: str) -> None:
    """Write the page with the pictures."""
    from shadowmetric.app.serving.searching.answers_page import page_of
    from shadowmetric.runtime.files import write_text

    try:
        write_text(html, page_of(answers, root, f"Searched in {name}"))
    except OSError as wrong:
        raise Mistake(f"--html {str(html)!r} cannot be written ({wrong.strerror}); name another file.") from None


def shown(index: str) -> str:
    """Return what to call an index."""
    from shadowmetric.app.serving.galleries.gallery import is_store
    from shadowmetric.app.serving.stores.address import without_secrets

    return without_secrets(index) if is_store(index) else Path(index).name


def end(broken: list[str], asked: int) -> None:
    """Name the pictures that could not be searched for; that is an error."""
    if len(broken) == asked == 1:
        raise Mistake(broken[0])
    for sentence in broken:
        print(one_line(sentence), file=sys.stderr)
    if broken:
        raise Stopped(f"{len(broken)} of {asked} pictures cannot be read.")
