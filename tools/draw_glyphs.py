# /// script
# requires-python = ">=3.11"
# dependencies = ["matplotlib==3.11.2", "numpy>=2.2"]
# ///
"""Draw the embedded dataset `glyphs`: characters in sixteen faces, each at a size, tilt and place of its own.

Candidates are letters, digits, marks and signs of currency and mathematics that at least FEWEST of the faces have,
without those that Unicode composes of others, without arrows, and without what is smaller than a third of an em in
the first face: a dot says little of its typeface. Twins are left out (`tools/glyphs/twins.py`).

How a glyph lies is drawn from the SHA-256 of its character and face, so it depends on no generator and on no other
glyph. Matplotlib brings the fonts and fontTools, which reads them; nothing else of this project needs either:

    uv run tools/draw_glyphs.py            write src/shadowmetric/app/data/datasets/glyphs.npz (a minute)
    uv run tools/draw_glyphs.py --check    fail if its arrays differ from what would be written

The arrays are the same on every machine; how zlib packs them may differ, so --check compares what is inside.
"""

import hashlib
import sys
import unicodedata
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `uv run`, which knows no `tools`

from tools.glyphs.outlines import Face, open_faces
from tools.glyphs.raster import count_samples, place
from tools.glyphs.twins import without_twins

FILE = Path(__file__).parents[1] / "src" / "shadowmetric" / "app" / "data" / "datasets" / "glyphs.npz"
SIDE = 28  # pixels
SHORTEST, LONGEST = 14.0, 24.0  # pixels: the longer side of a tilted glyph
STEEPEST = 20.0  # degrees to either side
BORDER = 1  # pixels without ink at the edge
FEWEST = 10  # faces
CATEGORIES = ("Lu", "Ll", "Lo", "Nd", "Po", "Sc", "Sm")
ARROWS = range(0x2190, 0x2200)
TIMES = "×"  # an x to the eye, though its pixels differ by more than a twin's
LAST = 0x22FF  # what comes after are technical signs, boxes and ornaments, alike in all faces
EM = 2048  # font units of the first face


def main(arguments: list[str]) -> int:
    """Write the file, or compare it with what would be written."""
    arrays = draw(open_faces())
    if arguments != ["--check"]:
        np.savez_compressed(FILE, **arrays)  # type: ignore[arg-type]
        print(f"{FILE}: {len(arrays['ink']):,} images, {FILE.stat().st_size:,} bytes")
        return 0
    with np.load(FILE) as there:
        same = all(name in there and np.array_equal(there[name], array) for name, array in arrays.items())
    print(f"{FILE}: {'as it would be drawn' if same else 'differs from what would be drawn'}")
    return 0 if same else 1


def draw(faces: dict[str, Face]) -> dict[str, np.ndarray]:
    """Return the arrays of the file; images are in the order of characters, then faces."""
    pairs = [
        (character, number, name)
        for character in without_twins(candidates(faces), faces)
        for number, name in enumerate(faces)
        if ord(character) in faces[name].names
    ]
    return {
        "ink": np.stack([draw_glyph(faces[name], character, name) for character, _, name in pairs]),
        "characters": np.array([ord(character) for character, _, _ in pairs], dtype=np.uint32),
        "faces": np.array([number for _, number, _ in pairs], dtype=np.uint8),
        "face_names": np.array(list(faces)),
    }


def candidates(faces: dict[str, Face]) -> list[str]:
    """Return the characters that enough faces have, by code point."""
    points = sorted(set().union(*(face.names for face in faces.values())))
    present = [chr(p) for p in points if sum(p in face.names for face in faces.values()) >= FEWEST]
    return [character for character in present if is_candidate(character) and is_large(character, faces)]


def is_candidate(character: str) -> bool:
    """Return whether a character is of a kind that is drawn."""
    return (
        ord(character) <= LAST
        and ord(character) not in ARROWS
        and character != TIMES
        and unicodedata.category(character) in CATEGORIES
        and not unicodedata.decomposition(character)
    )


def is_large(character: str, faces: dict[str, Face]) -> bool:
    """Return whether a character has ink in all of its faces and fills a third of an em in the first that has it."""
    outlines = [face.outline(character) for face in faces.values() if ord(character) in face.names]
    return all(outlines) and 3 * np.ptp(np.concatenate(outlines[0]), axis=0).max() >= EM


def draw_glyph(face: Face, character: str, name: str) -> np.ndarray:
    """Return the image of one character in one face, (28, 28) uint8 from 0 to 16."""
    tilt, length, right, down = lot(character, name)
    longest = SHORTEST + (LONGEST - SHORTEST) * length
    room = SIDE - 2 * BORDER
    polygons = place(face.outline(character), STEEPEST * (2 * tilt - 1), longest, room, (right, down))
    return np.pad(count_samples(polygons, room), BORDER)


def lot(character: str, name: str) -> tuple[float, float, float, float]:
    """Return four numbers from 0 to 1 that depend on a character and a face alone."""
    digest = hashlib.sha256(f"{ord(character):x} {name}".encode()).digest()
    first, second, third, fourth = np.frombuffer(digest[:8], dtype="<u2") / 65535
    return float(first), float(second), float(third), float(fourth)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
