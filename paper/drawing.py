"""What the images of this room are drawn with: lines and words as SVG, on a ground of their own for dark pages."""

from collections.abc import Iterator
from html import escape

Number = float | int
Point = tuple[Number, Number]

INK, FAINT, RULE, GROUND, PANEL = "#1f2937", "#5b6472", "#d5d9e0", "#ffffff", "#f8f9fb"
FONT = "font-family='Helvetica, Arial, DejaVu Sans, sans-serif'"


def opening(width: int, height: int, title: str, words: str) -> Iterator[str]:
    """Yield the first lines of an image: its size, its title, and what it shows in words; `</svg>` closes it."""
    yield (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' "
        f"{FONT} role='img' aria-labelledby='title desc'>"
    )
    yield f"<title id='title'>{escape(title, quote=False)}</title>"
    yield f"<desc id='desc'>{escape(words)}</desc>"
    yield f"<rect x='1' y='1' width='{width - 2}' height='{height - 2}' rx='12' fill='{GROUND}' stroke='{RULE}'/>"
    yield text((24, 36), title, size=19, weight=700)


def line(start: Point, end: Point, color: str, *, width: Number = 1.4, dashes: str = "", faint: bool = False) -> str:
    """Return a straight line."""
    more = (f" stroke-dasharray='{dashes}'" if dashes else "") + (" stroke-opacity='0.45'" if faint else "")
    ends = f"x1='{start[0]:.1f}' y1='{start[1]:.1f}' x2='{end[0]:.1f}' y2='{end[1]:.1f}'"
    return f"<line {ends} stroke='{color}' stroke-width='{width}'{more}/>"


def text(point: Point, words: str, *, size: int, weight: int = 400, color: str = INK, at: str = "start") -> str:
    """Return a line of text."""
    where = f"x='{point[0]:.1f}' y='{point[1]:.1f}' text-anchor='{at}'"
    return f"<text {where} font-size='{size}' font-weight='{weight}' fill='{color}'>{escape(words, quote=False)}</text>"
