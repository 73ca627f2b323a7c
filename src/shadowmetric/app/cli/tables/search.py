"""What `shadowmetric search` shows: a table for each image, with small images if the terminal has the colors."""

import os
from collections.abc import Sequence

from PIL import Image
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shadowmetric.app.cli import one_line
from shadowmetric.app.cli.screen import new_table, say, screen
from shadowmetric.app.serving.searching.search import Answer
from shadowmetric.app.serving.searching.shown import small_image
from shadowmetric.runtime.images import open_image
from shadowmetric.runtime.votes import verdict

SIDE = 16  # pixels; two of them in a letter's height
HALF = "▀"  # its upper half has the color of the letter, the lower one that behind it


def show_answers(answers: Sequence[Answer], root: str, thumbnails: bool | None) -> None:
    """Print a table for each image."""
    console = screen()
    if thumbnails is None:
        thumbnails = console.is_terminal and console.color_system in ("truecolor", "256") and "CI" not in os.environ
    for answer in answers:
        console.print()
        if thumbnails:
            query = open_image(answer.query)
            query.thumbnail((SIDE, SIDE))
            console.print(draw_thumbnail(query))
        absent = answer.decision is not None and not answer.decision.in_catalog
        say(console, one_line(title_of(answer)), "bold yellow" if absent else "bold")
        console.print(table_of(console, answer, root, thumbnails))


def title_of(answer: Answer) -> str:
    """Return the name of an image, and what it is taken for."""
    words = verdict(answer.classes, answer.decision)
    return f"{answer.query.name}: {words}" if words else answer.query.name


def table_of(console: Console, answer: Answer, root: str, thumbnails: bool) -> Table:
    """Return what was found for an image."""
    table = new_table(None, *(["image"] if thumbnails else []), "cosine", "class", "path")
    table.columns[-1].justify, table.columns[-1].no_wrap, table.columns[-1].overflow = "left", False, "fold"
    for hit in answer.hits:
        words = [Text(f"{hit.similarity:.3f}"), Text(one_line(hit.entry.label or "")), Text(one_line(hit.entry.path))]
        if thumbnails:
            small = small_image(root, hit.entry.path, SIDE)
            words.insert(0, Text("not there") if small is None else draw_thumbnail(small))
        table.add_row(*words)
    return table


def draw_thumbnail(image: Image.Image) -> Text:
    """Return a small image as letters, two pixels in each."""
    pixels = image.convert("RGB")
    text = Text()
    for top in range(0, pixels.height - 1, 2):
        for left in range(pixels.width):
            upper, lower = (color(pixels, left, top + below) for below in (0, 1))
            text.append(HALF, f"{upper} on {lower}")
        text.append("\n")
    text.rstrip()
    return text


def color(pixels: Image.Image, left: int, top: int) -> str:
    """Return the color of a pixel as rich writes it."""
    channels = pixels.getpixel((left, top))
    assert isinstance(channels, tuple)
    return "#{:02x}{:02x}{:02x}".format(*(int(value) for value in channels))
