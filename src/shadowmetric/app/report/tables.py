"""A table as people read it: in a terminal, in Markdown, on a page. All its figures are words by now."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Rows of words below headings. The first column names the row, the others hold figures."""

    title: str
    caption: str  # sentences: what was reduced, how many seeds, the command
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    kinds: tuple[str, ...]  # of each row: "loss", "control", "floor", or nothing

    def __post_init__(self):
        wrong = [row for row in self.rows if len(row) != len(self.headings)]
        if wrong or len(self.kinds) != len(self.rows):
            raise ValueError(f"the table {self.title!r} has rows that do not fit its headings: {wrong[:1]}.")


def plain_table(
    caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]], kinds: Sequence[str] = ()
) -> Table:
    """Return a table without a title."""
    cells = tuple(tuple(row) for row in rows)
    return Table("", caption, tuple(headings), cells, tuple(kinds) or ("",) * len(cells))


def as_markdown(table: Table) -> str:
    """Return the table in Markdown, controls and floors in italics; the caption below it."""
    lines = [f"| {' | '.join(map(plain, table.headings))} |", "|" + "---|" * len(table.headings)]
    for row, kind in zip(table.rows, table.kinds, strict=True):
        name = plain(row[0])
        name = f"*{name}*" if kind in ("control", "floor") else name
        lines.append(f"| {' | '.join((name, *map(plain, row[1:])))} |")
    return "\n".join(lines) + (f"\n\n{table.caption}\n" if table.caption else "\n")


def plain(words: str) -> str:
    """Return words that cannot end a cell of a Markdown table."""
    return words.replace("|", "\\|").replace("\n", " ")
