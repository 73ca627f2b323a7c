"""Answers on one page, which needs no network: each query beside what was found for it.

Memory: the small pictures, some kilobytes each.
"""

from collections.abc import Iterable
from html import escape

from PIL import Image

from shadowmetric.app.data.thumbnails import address
from shadowmetric.app.serving.searching.search import Answer
from shadowmetric.app.serving.searching.shown import small_picture
from shadowmetric.runtime.entries import Hit
from shadowmetric.runtime.pictures import open_picture

SIDE = 160  # pixels
STYLE = """
:root { color-scheme: light dark; font: 16px/1.4 system-ui, sans-serif; }
body { max-width: 80rem; margin: 2rem auto; padding: 0 1rem; }
section { border-top: 1px solid color-mix(in srgb, currentColor 20%, transparent); padding: 1rem 0; }
ol { display: flex; flex-wrap: wrap; gap: 1rem; list-style: none; padding: 0; }
figure { margin: 0; width: 160px; }
img, .none { width: 160px; height: 160px; object-fit: contain; border-radius: 8px;
  background: color-mix(in srgb, currentColor 8%, transparent); }
.none { display: grid; place-items: center; }
figcaption { overflow-wrap: anywhere; font-size: .85rem; }
figcaption b { font-variant-numeric: tabular-nums; }
"""


def page_of(answers: Iterable[Answer], root: str, title: str) -> str:
    """Return the page; `root` is the indexed folder."""
    parts = [section(answer, root) for answer in answers]
    return (
        f"<!doctype html>\n<html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{text(title)}</title><style>{STYLE}</style>\n<h1>{text(title)}</h1>\n{''.join(parts)}</html>\n"
    )


def section(answer: Answer, root: str) -> str:
    """Return one query with its neighbours."""
    query = open_picture(answer.query)
    query.thumbnail((SIDE, SIDE))
    found = "".join(f"<li>{neighbour(hit, root)}</li>" for hit in answer.hits)
    return f"<section><h2>{text(answer.query.name)}</h2>{picture(query, 'the query')}<ol>{found}</ol></section>\n"


def neighbour(hit: Hit, root: str) -> str:
    """Return a picture that was found, with its cosine, class and path."""
    entry, similarity = hit
    shown = picture(small_picture(root, entry.path, SIDE), entry.label or entry.path)
    label = f"{text(entry.label)}<br>" if entry.label is not None else ""
    return f"<figure>{shown}<figcaption><b>{similarity:.3f}</b> {label}{text(entry.path)}</figcaption></figure>"


def picture(small: Image.Image | None, what: str) -> str:
    """Return a picture as HTML."""
    if small is None:
        return "<div class=none>not there</div>"
    return f'<img src="{address(small, SIDE)}" alt="{text(what)}">'


def text(words: str) -> str:
    """Return words as HTML; names of files may hold bytes that are no letters."""
    return escape(words.encode("utf-8", "replace").decode("utf-8"))
