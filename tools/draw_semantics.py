"""Draw what each miner chooses: docs/images/*.svg, from the miners' own output on one small batch.

The batch has ten unit rows in the plane. Row 0 is the anchor of every image, rows 1 and 2 are its positives, the
others its negatives; rows 7 and 8 are mirror images, so equally far. An image shows squared distance from the anchor
to the right, and one lane for each pair (anchor, positive): its window, and the negatives that the miner chose for it.

    python tools/draw_semantics.py            write the images
    python tools/draw_semantics.py --check    fail if one differs from what would be written
"""

import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

import torch

import shadowmetric as sm

FOLDER = Path(__file__).parents[1] / "docs" / "images"
SQUARED_DISTANCES = [0.0, 0.20, 0.45, 0.10, 0.28, 0.35, 0.41, 0.58, 0.58, 0.85]  # of each row from row 0
SIDES = [1, 1, -1, 1, -1, 1, -1, 1, -1, 1]  # above or below the anchor on the circle
LABELS = [0, 0, 0, 1, 1, 2, 2, 3, 3, 4]

WIDTH, LEFT, RIGHT = 780, 142, 754
AXIS, FIRST_LANE, LANE = 130, 170, 74
INK, FAINT, RULE = "#1f2937", "#5b6472", "#d5d9e0"
POSITIVE, NEGATIVE, WINDOW, WINDOW_EDGE = "#12704a", "#b93a0b", "#fdeeb5", "#c98a06"
FONT = "font-family='Helvetica, Arial, DejaVu Sans, sans-serif'"
ACCESS = "role='img' aria-labelledby='title desc'"


class Lane(NamedTuple):
    """One pair (row 0, positive) under one miner."""

    name: str
    miner: sm.SemiHardMiner | sm.HardMiner | sm.BatchHardMiner | sm.AllMiner
    positive: int


class Image(NamedTuple):
    """What is drawn into one file."""

    file: str
    title: str
    rule: str
    lanes: list[Lane]


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the ten unit rows and their labels."""
    cosine = 1 - torch.tensor(SQUARED_DISTANCES, dtype=torch.float64) / 2
    sine = (1 - cosine.square()).sqrt() * torch.tensor(SIDES)
    return torch.stack([cosine, sine], dim=1), torch.tensor(LABELS)


def make_images() -> list[Image]:
    """Return every image, with new miners (a random one draws the same each time)."""

    def pairs(miner):
        return [Lane("pair (0, 1)", miner, 1), Lane("pair (0, 2)", miner, 2)]

    def one_random():
        return sm.SemiHardMiner(0.2, "random", generator=torch.Generator().manual_seed(6))

    units = [Lane(f'unit="{u}"', sm.SemiHardMiner(0.2, "all", unit=u), 1) for u in ("squared", "gap", "distance")]
    random = [Lane("pair (0, 1)", one_random(), 1), Lane("pair (0, 2)", one_random(), 2)]
    nearest, every = sm.SemiHardMiner(0.2), sm.SemiHardMiner(0.2, "all")
    instead = sm.SemiHardMiner(0.1, fallback="farthest")
    call = "SemiHardMiner(0.2"
    return [
        Image(
            "semi_hard_nearest", f"{call})", "Each pair takes the nearest negative inside its window.", pairs(nearest)
        ),
        Image("semi_hard_all", f'{call}, "all")', "Each pair takes every negative inside its window.", pairs(every)),
        Image(
            "semi_hard_random", f'{call}, "random")', "Each pair takes one negative of its window, by chance.", random
        ),
        Image(
            "semi_hard_fallback",
            'SemiHardMiner(0.1, fallback="farthest")',
            "A pair with an empty window takes the anchor's farthest negative instead of none.",
            pairs(instead),
        ),
        Image(
            "hard",
            "HardMiner()",
            "Every positive with the anchor's closest negative; no window.",
            pairs(sm.HardMiner()),
        ),
        Image(
            "batch_hard", "BatchHardMiner()", "The farthest positive, the closest negative.", pairs(sm.BatchHardMiner())
        ),
        Image("all", "AllMiner()", "Every positive with every negative.", pairs(sm.AllMiner())),
        Image("units", f'{call}, "all", unit=...)', "One margin, three windows of the pair (0, 1).", units),
    ]


def choose_negatives(lane: Lane) -> list[int]:
    """Return the negatives that the lane's miner really chooses for its pair."""
    triplets = torch.stack(lane.miner(*batch()), dim=1).tolist()
    return [n for a, p, n in triplets if (a, p) == (0, lane.positive)]


def window(lane: Lane) -> tuple[float, float] | None:
    """Return the two ends of the pair's window in squared distance, as the library computes them."""
    if not isinstance(lane.miner, sm.SemiHardMiner):
        return None
    floor = torch.tensor(SQUARED_DISTANCES[lane.positive], dtype=torch.float64)
    return float(floor), float(lane.miner.comparison.upper_end(floor, lane.miner.margin, torch.ones(())))


def draw(image: Image) -> str:
    """Return an image as SVG."""
    bottom = FIRST_LANE + LANE * len(image.lanes)
    answers = [choose_negatives(lane) for lane in image.lanes]  # once: a random miner would draw anew
    spoken = "; ".join(
        f"{lane.name}: {', '.join(f'(0, {lane.positive}, {n})' for n in negatives) or 'none'}"
        for lane, negatives in zip(image.lanes, answers, strict=True)
    )
    described = f"{image.rule} Triplets (anchor, positive, negative) of anchor 0. {spoken}."
    size = f"width='{WIDTH}' height='{bottom + 50}'"
    lines = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {bottom + 50}' {size} {FONT} {ACCESS}>",
        f"<title id='title'>{escape(image.title)}</title>",
        f"<desc id='desc'>{escape(described)}</desc>",
        f"<rect x='1' y='1' width='{WIDTH - 2}' height='{bottom + 48}' rx='12' fill='#ffffff' stroke='{RULE}'/>",
        text(24, 34, image.title, size=17, weight=700, family="DejaVu Sans Mono, Menlo, Consolas, monospace"),
        text(24, 57, image.rule, size=14, color=FAINT),
        *axis(bottom),
    ]
    for number, (lane, negatives) in enumerate(zip(image.lanes, answers, strict=True)):
        lines += draw_lane(lane, negatives, FIRST_LANE + LANE * number + LANE // 2)
    lines += [*legend(bottom + 28, windows=window(image.lanes[0]) is not None), "</svg>", ""]
    return "\n".join(lines)


def axis(bottom: int) -> Iterator[str]:
    """Yield the axis, its numbers, and a mark for each row with a guide down through the lanes."""
    for row, squared_distance in enumerate(SQUARED_DISTANCES):
        if row > 0:
            yield line(across(squared_distance), AXIS, across(squared_distance), bottom - 4, RULE, dashed=True)
    yield line(LEFT - 8, AXIS, RIGHT, AXIS, INK)
    yield text(24, AXIS + 6, "squared distance", size=12, color=FAINT)
    yield text(24, AXIS + 24, "from row 0", size=12, color=FAINT)
    for tenth in range(10):
        yield line(across(tenth / 10), AXIS, across(tenth / 10), AXIS + 5, INK)
        yield text(across(tenth / 10), AXIS + 24, f"{tenth / 10:.1f}", size=12, color=FAINT, anchor="middle")
    for row, squared_distance in enumerate(SQUARED_DISTANCES):
        x, below = across(squared_distance), SQUARED_DISTANCES[:row].count(squared_distance)
        y = AXIS - 24 * below
        yield mark(row, x, y, filled=True)
        tied = SQUARED_DISTANCES.count(squared_distance) > 1
        where = (x + 12, y - 4 if below == 0 else y + 2, "start") if tied else (x, y - 14, "middle")
        yield text(where[0], where[1], name(row), size=14, weight=700, color=color(row), anchor=where[2])


def draw_lane(lane: Lane, negatives: list[int], y: int) -> Iterator[str]:
    """Yield one lane: the window, the pair's positive, and arcs to the negatives chosen for it."""
    ends = window(lane)
    start = across(SQUARED_DISTANCES[lane.positive])
    yield text(24, y + 5, lane.name, size=13)
    if ends is not None:
        left, right = (across(end) for end in ends)
        yield (
            f"<rect x='{left:.1f}' y='{y - 27}' width='{right - left:.1f}' height='54' fill='{WINDOW}' "
            f"fill-opacity='0.75' stroke='{WINDOW_EDGE}' stroke-dasharray='3 3'/>"
        )
    for row in negatives:
        end, height = across(SQUARED_DISTANCES[row]), height_in_lane(row)
        yield (
            f"<path d='M{start:.1f} {y} Q{(start + end) / 2:.1f} {y - 44} {end:.1f} {y + height}' fill='none' "
            f"stroke='{INK}' stroke-width='1.6'/>"
        )
    inside = [row for row in range(3, len(LABELS)) if ends and ends[0] < SQUARED_DISTANCES[row] < ends[1]]
    for row in sorted({*negatives, *inside}):
        x, height = across(SQUARED_DISTANCES[row]), height_in_lane(row)
        yield mark(row, x, y + height, filled=row in negatives)
        if row in negatives:
            where = (x + 11, y + height + 4, "start") if height else (x, y + 22, "middle")
            yield text(where[0], where[1], name(row), size=12, weight=700, color=NEGATIVE, anchor=where[2])
    yield mark(lane.positive, start, y, filled=True)
    where = (start, y + 22, "middle") if ends is None else (start - 12, y + 4, "end")
    yield text(where[0], where[1], name(lane.positive), size=12, weight=700, color=POSITIVE, anchor=where[2])
    if not negatives:
        yield text(start + 16, y + 5, "no triplet", size=13, color=FAINT)


def height_in_lane(row: int) -> int:
    """Return how far below the middle of a lane a row stands: rows that are equally far stand one above the other."""
    tied = [other for other, value in enumerate(SQUARED_DISTANCES) if value == SQUARED_DISTANCES[row]]
    return 0 if len(tied) == 1 else -9 if row == tied[0] else 11


def legend(y: int, *, windows: bool) -> Iterator[str]:
    """Yield the key to the marks."""
    yield mark(1, 32, y - 5, filled=True)
    yield text(44, y, "positive", size=12, color=FAINT)
    yield mark(3, 122, y - 5, filled=True)
    yield text(134, y, "negative (in a lane: chosen)", size=12, color=FAINT)
    if not windows:
        return
    yield mark(3, 330, y - 5, filled=False)
    yield text(342, y, "in the window, not chosen", size=12, color=FAINT)
    paint = f"fill='{WINDOW}' stroke='{WINDOW_EDGE}' stroke-dasharray='3 3'"
    yield f"<rect x='520' y='{y - 13}' width='24' height='16' {paint}/>"
    yield text(552, y, "window, both ends excluded", size=12, color=FAINT)


def across(squared_distance: float) -> float:
    """Return where a squared distance stands, from the left."""
    return LEFT + squared_distance * (RIGHT - LEFT - 20) / 0.9


def name(row: int) -> str:
    """Return a row's name: what it is to row 0, and its number."""
    return f"a{row}" if row == 0 else f"p{row}" if LABELS[row] == LABELS[0] else f"n{row}"


def color(row: int) -> str:
    """Return the color of what a row is to row 0."""
    return INK if row == 0 else POSITIVE if LABELS[row] == LABELS[0] else NEGATIVE


def mark(row: int, x: float, y: float, *, filled: bool) -> str:
    """Return a square for the anchor, a disc for a positive, a diamond for a negative."""
    paint = f"fill='{color(row) if filled else '#ffffff'}' stroke='{color(row)}' stroke-width='1.8'"
    if row == 0:
        return f"<rect x='{x - 7:.1f}' y='{y - 7}' width='14' height='14' {paint}/>"
    if LABELS[row] == LABELS[0]:
        return f"<circle cx='{x:.1f}' cy='{y}' r='7' {paint}/>"
    return f"<path d='M{x:.1f} {y - 8} l8 8 l-8 8 l-8 -8 z' {paint}/>"


def line(x1: float, y1: float, x2: float, y2: float, stroke: str, *, dashed: bool = False) -> str:
    """Return a straight line."""
    dashes = " stroke-dasharray='2 4'" if dashed else ""
    return f"<line x1='{x1:.1f}' y1='{y1}' x2='{x2:.1f}' y2='{y2}' stroke='{stroke}' stroke-width='1.3'{dashes}/>"


def text(x, y, words, *, size, weight=400, color=INK, anchor="start", family=None) -> str:
    """Return a line of text."""
    face = f" font-family='{family}'" if family else ""
    return (
        f"<text x='{x:.1f}' y='{y}' font-size='{size}' font-weight='{weight}' fill='{color}' "
        f"text-anchor='{anchor}'{face}>{escape(words, quote=False)}</text>"
    )


def draw_images() -> dict[Path, str]:
    """Return the text of every image by its path."""
    return {FOLDER / f"{image.file}.svg": draw(image) for image in make_images()}


def main(arguments: list[str]) -> int:
    """Write the images, or check them."""
    if arguments == ["--check"]:
        stale = [
            path.name for path, svg in draw_images().items() if not path.is_file() or path.read_text("utf-8") != svg
        ]
        print(f"not what would be drawn now: {', '.join(stale)}" if stale else "the images are current")
        return int(bool(stale))
    FOLDER.mkdir(exist_ok=True)
    for path, svg in draw_images().items():
        path.write_text(svg, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
