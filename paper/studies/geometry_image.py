"""Draw what `geometry` measured: six panels, one row for Triplet and one for Shadow, as SVG on a light ground.

Left and middle: rows of free length, before and after a step, as in the paper's figure (a) to (d). Right: the same
triplet on unit rows, a little larger, before (hollow) and after. Arrows are the steps, to scale.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from paper.drawing import FAINT, INK, PANEL, RULE, Number, Point, line, opening, text

WIDTH, HEIGHT = 1080, 940
LEFT, ACROSS, TOP, DOWN = 24, 348, 112, 372  # of the panels: where the first is, and from one to the next
COLORS = {"anchor": INK, "positive": "#12704a", "negative": "#b93a0b"}
BESIDE = {"anchor": (21, 6, "start"), "positive": (0, -13, "middle"), "negative": (12, 17, "start")}
TITLE = "One step of Triplet and of Shadow, from the same triplet"


class Plane(NamedTuple):
    """Where the plane stands in the image: its origin, and the pixels of one unit of length."""

    x: Number
    y: Number
    unit: float

    def place(self, row: Any) -> Point:
        """Return where a row stands."""
        return self.x + self.unit * row[0], self.y - self.unit * row[1]


def image(results: dict[str, Any]) -> str:
    """Return the image as SVG."""
    free, unit = results["free"], results["unit"]
    lines = [
        *opening(WIDTH, HEIGHT, TITLE, " ".join(caption(results))),
        *legend(results),
    ]
    for down, (loss, letters) in enumerate((("triplet", "ab"), ("shadow", "cd"))):
        name, y = loss.title(), TOP + DOWN * down
        lines += panel(LEFT, y, f"({letters[0]}) {name}, before", loss, free, stepped=False)
        lines += panel(LEFT + ACROSS, y, f"({letters[1]}) {name}, after one step", loss, free)
        lines += panel(LEFT + 2 * ACROSS, y, f"{name} on unit rows, after one step", loss, unit, circle=True)
    lines += [text((24, HEIGHT - 66 + 21 * n), words, size=13) for n, words in enumerate(caption(results))]
    return "\n".join([*lines, "</svg>", ""])


def caption(results: dict[str, Any]) -> list[str]:
    """Return what the image shows, in sentences."""
    p, n = (f"{abs(aside):.3f}" for aside in results["free"]["shadow"]["aside"].values())
    return [
        "Free rows: Shadow moves p and n along the anchor's direction and by one length, so neither comes nearer to "
        f"the old axis: {p} and {n} aside stay.",
        "Triplet moves p and n along their lines to the anchor, farther the farther they are. No gradient of either "
        "loss leaves the plane of the three rows.",
        "Unit rows: both losses step the same way, Triplet twice as far; Shadow at twice the rate is Triplet.",
    ]


def legend(results: dict[str, Any]) -> Iterator[str]:
    """Yield the settings, and the key to the marks."""
    words = f"Plain gradient descent, rate {results['rate']:g}, margin {results['margin']:g}, gradients by autograd."
    yield text((24, 62), words, size=14, color=FAINT)
    key = (("anchor", "a  anchor", 24), ("positive", "p  positive", 120), ("negative", "n  negative", 226))
    for name, words, x in key:
        yield mark(name, (x + 7, 86))
        yield text((x + 22, 91), words, size=13, color=FAINT)
    yield mark("positive", (343, 86), hollow=True)
    yield text((357, 91), "hollow: before the step", size=13, color=FAINT)
    yield arrow((524, 86), (556, 86), INK)
    yield text((566, 91), "the step, to scale", size=13, color=FAINT)
    yield line((706, 86), (738, 86), FAINT, dashes="2 4")
    yield text((748, 91), "distance, or the foot of a shadow; bars: gaps", size=13, color=FAINT)


def panel(
    x: Number, y: Number, title: str, loss: str, steps: dict[str, Any], *, stepped: bool = True, circle: bool = False
) -> Iterator[str]:
    """Yield one panel: the rows, the steps, and what the loss measures between them."""
    plane = Plane(x + 56, y + 216, 152.0) if circle else Plane(x + 64, y + 206, 132.0)
    before, step = steps["before"], steps[loss]
    state = step if stepped else before
    at = {name: plane.place(row) for name, row in state["rows"].items()}
    origin = plane.place((0, 0))
    yield f"<rect x='{x}' y='{y}' width='{ACROSS - 12}' height='{DOWN - 14}' rx='8' fill='{PANEL}' stroke='{RULE}'/>"
    yield text((x + 14, y + 26), title, size=14, weight=700)
    yield text((x + 14, y + 347), describe_measure(state, loss), size=13)
    if circle:
        yield arc(plane)
    for name, point in at.items():
        yield line(origin, point, COLORS[name], width=1.2, faint=True)
    yield from (distances(at) if loss == "triplet" else shadows(plane, state, at))
    yield f"<circle cx='{origin[0]:.1f}' cy='{origin[1]:.1f}' r='2.5' fill='{INK}'/>"
    yield from marks(plane, state, before, step, hollow=stepped)


def describe_measure(state: dict[str, Any], loss: str) -> str:
    """Return what a loss compares, in words."""
    words, figures = ("d²", state["squared_distance"]) if loss == "triplet" else ("gap", state["gap"])
    value = f"loss {state['loss'][loss]:.3f}"
    return f"{words} to p {figures['positive']:.3f}, to n {figures['negative']:.3f}; {value}"


def marks(
    plane: Plane, state: dict[str, Any], before: dict[str, Any], step: dict[str, Any], *, hollow: bool
) -> Iterator[str]:
    """Yield the rows with their names, where they were, and the steps between."""
    for name, row in before["rows"].items():
        start = plane.place(row)
        if hollow:
            yield mark(name, start, hollow=True)
        yield arrow(start, plane.place(step["stepped_to"][name]), COLORS[name])
    for name, row in state["rows"].items():
        point = plane.place(row)
        right, below, side = BESIDE[name]
        yield mark(name, point)
        yield text((point[0] + right, point[1] + below), name[0], size=15, weight=700, color=COLORS[name], at=side)


def distances(at: dict[str, Point]) -> Iterator[str]:
    """Yield the lines from the anchor to the positive and to the negative."""
    for name in ("positive", "negative"):
        yield line(at["anchor"], at[name], COLORS[name], dashes="2 4")


def shadows(plane: Plane, state: dict[str, Any], at: dict[str, Point]) -> Iterator[str]:
    """Yield the anchor's axis, the feet of the shadows on it, and each gap as a bar beside the axis."""
    ux, uy = (part / state["length"] for part in state["rows"]["anchor"])
    end = state["length"] + 0.27
    yield line(plane.place((0, 0)), plane.place((end * ux, end * uy)), FAINT, dashes="7 4")
    for name, side in (("positive", 5), ("negative", -5)):
        shadow = state["shadow"][name]
        foot = plane.place((shadow * ux, shadow * uy))
        yield line(at[name], foot, COLORS[name], dashes="2 4")
        beside = [(x - side * uy, y - side * ux) for x, y in (foot, at["anchor"])]
        yield line(beside[0], beside[1], COLORS[name], width=5)


def arc(plane: Plane) -> str:
    """Return the part of the unit circle that a panel shows."""
    (x1, y1), (x2, y2) = (plane.place((math.cos(angle), math.sin(angle))) for angle in (-0.74, 1.75))
    round_ = f"A{plane.unit} {plane.unit} 0 0 0"
    return f"<path d='M{x1:.1f} {y1:.1f} {round_} {x2:.1f} {y2:.1f}' fill='none' stroke='#aab2bf'/>"


def mark(name: str, point: Point, *, hollow: bool = False) -> str:
    """Return a square for the anchor, a disc for the positive, a diamond for the negative."""
    x, y = point
    paint = f"fill='{PANEL if hollow else COLORS[name]}' stroke='{COLORS[name]}' stroke-width='1.8'"
    if name == "anchor":
        return f"<rect x='{x - 6.5:.1f}' y='{y - 6.5:.1f}' width='13' height='13' {paint}/>"
    if name == "positive":
        return f"<circle cx='{x:.1f}' cy='{y:.1f}' r='7' {paint}/>"
    return f"<path d='M{x:.1f} {y - 8:.1f} l8 8 l-8 8 l-8 -8 z' {paint}/>"


def arrow(start: Point, end: Point, color: str) -> str:
    """Return an arrow."""
    turn = math.atan2(end[1] - start[1], end[0] - start[0])
    wings = [(end[0] - 9 * math.cos(turn + side), end[1] - 9 * math.sin(turn + side)) for side in (-0.45, 0.45)]
    head = " ".join(f"{x:.1f},{y:.1f}" for x, y in (end, *wings))
    return line(start, end, color, width=2.2) + f"<polygon points='{head}' fill='{color}'/>"
