"""Where a command prints: a terminal of any width, or a file with lines of a fixed width and no colors."""

import io
import sys

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH_WITHOUT_TERMINAL = 120
LEAST_WIDTH_FOR_WORDS = 78
ANY_WIDTH = 100_000
FOLDED = ("what it is", "class", "its class", "taken for")  # columns that give way where there is no room


def screen() -> Console:
    """Return standard output; letters that its encoding does not have become question marks."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH_WITHOUT_TERMINAL)


def plain(name: object) -> str:
    """Return a name or a sentence in which names of classes and files cannot move the cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(name))


def say(console: Console, sentence: str, style: str = "") -> None:
    """Print a sentence: folded between words in a terminal, on one line elsewhere."""
    console.print(Text(sentence, style), soft_wrap=not console.is_terminal)


def show(console: Console, *tables: Table) -> None:
    """Print tables, side by side if they fit; without words where those would be folded to shreds."""
    for table in tables:
        if console.width < LEAST_WIDTH_FOR_WORDS and table.columns[-1].header == FOLDED[0]:
            table.columns.pop()
    beside = Table.grid(padding=(0, 5))
    beside.add_row(*tables)
    for part in [beside] if fits(console, beside) else tables:
        console.print()
        console.print(part)


def fits(console: Console, table: Table) -> bool:
    """Return whether nothing in the table need be folded or shortened."""
    anything = console.options.update(max_width=ANY_WIDTH)
    return console.measure(table, options=anything).maximum <= console.width


def new_table(title: str | None, *headings: str) -> Table:
    """Return a table without rows."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    if title is not None:
        table.title, table.title_justify, table.min_width = Text(title, "bold"), "left", len(title)
    for heading in headings:
        if heading in FOLDED:
            table.add_column(heading)
        else:
            table.add_column(heading, justify="left" if heading == "figure" else "right", no_wrap=True)
    return table
