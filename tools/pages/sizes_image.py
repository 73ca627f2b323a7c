"""Draw what mining, loss and gradient take at each batch size, beside the other libraries: memory left, time right.

    python -m benchmarks losses --batch 256 512 1024 2048 4096 8192 16384 --dim 128 \
        --out benchmarks/records/bench-sizes.csv
    make results

Both axes are logarithmic: a line that is twice as steep grows with the square. A contender's line ends at the largest
batch that it finished; the row after it in the table says why.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from paper.drawing import FAINT, PANEL, RULE, Number, Point, line, opening, text

WIDTH, HEIGHT = 1080, 500
TOP, DOWN, ACROSS = 138, 296, 410
NAMES = {
    "pml": ("pytorch-metric-learning", "#b93a0b"),
    "st": ("sentence-transformers", "#8a5a00"),
    "algorithm-1": ("the paper's Algorithm 1", "#5b6472"),
    "ours": ("shadowmetric", "#12704a"),
}
TITLE = "Semi-hard mining, loss and gradient of a batch"


class Panel(NamedTuple):
    """One chart: a column of the bench, its title, where it stands, its decades, and how ticks are said."""

    column: str
    title: str
    left: Number
    lowest: int  # powers of ten
    highest: int
    ticks: tuple[str, ...]


PANELS = (
    Panel(
        "peak_extra_mb", "memory at the peak, beyond the embeddings", 84, 0, 4, ("1 MB", "10", "100", "1 GB", "10 GB")
    ),
    Panel("total_ms", "time, two cores", 84 + 500, 0, 5, ("1 ms", "10", "100", "1 s", "10 s", "100 s")),
)


def image(rows: Sequence[dict[str, str]]) -> str:
    """Return the image as SVG, from the rows of the bench."""
    batches = sorted({int(row["batch"]) for row in rows})
    lines = [*opening(WIDTH, HEIGHT, TITLE, caption(rows)), text((24, 62), settings(rows), size=14, color=FAINT)]
    lines += legend(rows)
    for panel in PANELS:
        lines += frame(panel, batches)
        for name in NAMES:
            lines += trace(name, [place(panel, batches, row) for row in rows_with(rows, name, panel.column)])
    return "\n".join([*lines, "</svg>", ""])


def rows_with(rows: Sequence[dict[str, str]], name: str, column: str) -> list[dict[str, str]]:
    """Return the rows of a contender that have a figure, by their batch."""
    return sorted((row for row in rows if row["contender"] == name and row[column]), key=lambda row: int(row["batch"]))


def place(panel: Panel, batches: Sequence[int], row: dict[str, str]) -> Point:
    """Return where a figure stands."""
    across = math.log(int(row["batch"]) / batches[0]) / math.log(batches[-1] / batches[0])
    up = (math.log10(max(float(row[panel.column]), 10**panel.lowest)) - panel.lowest) / (panel.highest - panel.lowest)
    return panel.left + ACROSS * across, TOP + DOWN * (1 - up)


def frame(panel: Panel, batches: Sequence[int]) -> Iterator[str]:
    """Yield the ground, the grid and what stands at it."""
    left = panel.left
    yield f"<rect x='{left}' y='{TOP}' width='{ACROSS}' height='{DOWN}' fill='{PANEL}' stroke='{RULE}'/>"
    yield text((left, TOP - 12), panel.title, size=14, weight=700)
    for number, words in enumerate(panel.ticks):
        y = TOP + DOWN * (1 - number / (len(panel.ticks) - 1))
        yield line((left, y), (left + ACROSS, y), RULE, width=1)
        yield text((left - 8, y + 4), words, size=12, color=FAINT, at="end")
    for batch in batches:
        x = left + ACROSS * math.log(batch / batches[0]) / math.log(batches[-1] / batches[0])
        yield text((x, TOP + DOWN + 20), f"{batch:,}", size=12, color=FAINT, at="middle")
    yield text((left + ACROSS / 2, TOP + DOWN + 42), "rows in the batch", size=12, color=FAINT, at="middle")


def trace(name: str, points: Sequence[Point]) -> Iterator[str]:
    """Yield a contender's line and marks."""
    color, width = NAMES[name][1], 3.2 if name == "ours" else 1.8
    for start, end in pairwise(points):
        yield line(start, end, color, width=width)
    for x, y in points:
        yield f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{3.6 if name == 'ours' else 2.8}' fill='{color}'/>"


def legend(rows: Sequence[dict[str, str]]) -> Iterator[str]:
    """Yield the contenders' names beside a piece of their lines."""
    x = 24
    for name, (words, color) in NAMES.items():
        if rows_with(rows, name, "peak_extra_mb"):
            yield from trace(name, [(x, 86), (x + 28, 86)])
            yield text((x + 38, 91), words, size=14, weight=700, color=color)
            x += 66 + 8 * len(words)


def settings(rows: Sequence[dict[str, str]]) -> str:
    """Return what was measured, in a line."""
    one = rows[0]
    return (
        f"Random rows of {one['dim']} numbers, {one['per_class']} of each class, forward and backward, without a GPU; "
        f"torch {one['torch'].split('+')[0]}. Both axes are logarithmic."
    )


def caption(rows: Sequence[dict[str, str]]) -> str:
    """Return the largest batch of each contender in words."""
    sentences = []
    for name, (words, _) in NAMES.items():
        results = rows_with(rows, name, "peak_extra_mb")
        if results:
            last = results[-1]
            seconds, megabytes = float(last["total_ms"]) / 1000, float(last["peak_extra_mb"])
            sentences.append(f"{words}, {int(last['batch']):,} rows: {megabytes:,.0f} MB, {seconds:.2g} s.")
    return " ".join(sentences)
