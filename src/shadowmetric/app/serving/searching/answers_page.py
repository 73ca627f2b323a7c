"""Answers on one page, which needs no network: each query beside what was found for it.

Memory: the small images, some kilobytes each.
"""

from collections.abc import Iterable
from html import escape

from PIL import Image

from shadowmetric.app.data.thumbnails import address
from shadowmetric.app.serving.searching.search import Answer
from shadowmetric.app.serving.searching.shown import small_image
from shadowmetric.runtime.entries import Hit
from shadowmetric.runtime.images import open_image
from shadowmetric.runtime.votes import verdict

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
    """Return one query with its neighbors."""
    query = open_image(answer.query)
    query.thumbnail((SIDE, SIDE))
    items = "".join(f"<li>{neighbor(hit, root)}</li>" for hit in answer.hits)
    words = verdict(answer.classes, answer.decision)
    said = f"<p><b>{text(words)}</b></p>" if words else ""
    return f"<section><h2>{text(answer.query.name)}</h2>{image(query, 'the query')}{said}<ol>{items}</ol></section>\n"


def neighbor(hit: Hit, root: str) -> str:
    """Return an image that was found, with its cosine, class and path."""
    entry, similarity = hit
    thumbnail = image(small_image(root, entry.path, SIDE), entry.label or entry.path)
    label = f"{text(entry.label)}<br>" if entry.label is not None else ""
    return f"<figure>{thumbnail}<figcaption><b>{similarity:.3f}</b> {label}{text(entry.path)}</figcaption></figure>"


def image(small: Image.Image | None, what: str) -> str:
    """Return an image as HTML."""
    if small is None:
        return "<div class=none>not there</div>"
    return f'<img src="{address(small, SIDE)}" alt="{text(what)}">'


def text(words: str) -> str:
    """Return words as HTML; names of files may hold bytes that are no letters."""
    return escape(words.encode("utf-8", "replace").decode("utf-8"))
