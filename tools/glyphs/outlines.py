"""Outlines of characters: closed polygons in font units, from the files of the typefaces that matplotlib ships.

DejaVu (Bitstream Vera's license, with changes in the public domain) and STIX General (SIL Open Font License 1.1); both
allow images made of the fonts to be used and given away as one likes. Fonts are read by fontTools, which comes with
matplotlib; no rasterizer of the machine takes part, so that its version is of no matter.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

FAMILIES = {
    "DejaVu Sans": ("DejaVuSans", ("", "-Bold", "-Oblique", "-BoldOblique")),
    "DejaVu Sans Mono": ("DejaVuSansMono", ("", "-Bold", "-Oblique", "-BoldOblique")),
    "DejaVu Serif": ("DejaVuSerif", ("", "-Bold", "-Italic", "-BoldItalic")),
    "STIX": ("STIXGeneral", ("", "Bol", "Italic", "BolIta")),
}
STYLES = ("", " Bold", " Italic", " Bold Italic")  # of each family, in the order above
STEPS = 8  # straight pieces of a curve

Point = tuple[float, float]
Outline = list[np.ndarray]  # closed polygons, (points, 2) float64


def face_files() -> dict[str, str]:
    """Return the file of each face, without its folder and ending."""
    return {
        family + style: stem + ending
        for family, (stem, endings) in FAMILIES.items()
        for style, ending in zip(STYLES, endings, strict=True)
    }


class Face:
    """One typeface: which characters it has, and their outlines."""

    def __init__(self, path: Path):
        from fontTools.ttLib import TTFont  # pyright: ignore[reportMissingImports]

        font = TTFont(path)
        self.names: dict[int, str] = font.getBestCmap()
        self.glyphs = font.getGlyphSet()

    def outline(self, character: str) -> Outline:
        """Return the polygons of a character; none if it has no ink."""
        from fontTools.pens.recordingPen import DecomposingRecordingPen  # pyright: ignore[reportMissingImports]

        pen = DecomposingRecordingPen(self.glyphs)
        self.glyphs[self.names[ord(character)]].draw(pen)
        return polygons(pen.value)


def open_faces() -> dict[str, Face]:
    """Return the sixteen faces by name, from the fonts of the matplotlib that is installed."""
    import matplotlib  # pyright: ignore[reportMissingImports]

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return {name: Face(folder / f"{file}.ttf") for name, file in face_files().items()}


def polygons(strokes: list[tuple[str, tuple[Any, ...]]]) -> Outline:
    """Return the closed polygons of a recorded pen's moves, lines and quadratic curves."""
    closed: Outline = []
    points: list[Point] = []
    for move, arguments in strokes:
        if move == "moveTo":
            points = [arguments[0]]
        elif move == "lineTo":
            points.append(arguments[0])
        elif move == "qCurveTo":
            if arguments[-1] is None:  # no point lies on the outline: start half-way between the last and the first
                arguments = (*arguments[:-1], middle(arguments[-2], arguments[0]))
                points = [arguments[-1]]
            points += curve(points[-1], arguments)
        elif move in ("closePath", "endPath"):
            closed.append(np.array(points, dtype=np.float64))
        else:
            raise ValueError(f"a glyph has a {move!r}, which TrueType outlines do not have.")
    return closed


def curve(start: Point, arguments: tuple[Point, ...]) -> list[Point]:
    """Return points along quadratic curves; between two control points the outline passes half-way (TrueType)."""
    *controls, end = arguments
    stops = [*(middle(one, other) for one, other in pairwise(controls)), end]
    points = []
    for control, stop in zip(controls, stops, strict=True):
        points += [bend(start, control, stop, step / STEPS) for step in range(1, STEPS + 1)]
        start = stop
    return points


def bend(start: Point, control: Point, stop: Point, t: float) -> Point:
    """Return a point of one quadratic curve."""
    x, y = ((1 - t) ** 2 * a + 2 * t * (1 - t) * c + t**2 * b for a, c, b in zip(start, control, stop, strict=True))
    return x, y


def middle(one: Point, other: Point) -> Point:
    """Return the point half-way between two."""
    return (one[0] + other[0]) / 2, (one[1] + other[1]) / 2
