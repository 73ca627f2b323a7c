"""What is drawn depends on characters and faces alone; what is committed is what would be drawn."""

import numpy as np
import pytest

from tools import draw_glyphs
from tools.draw_glyphs import BORDER, EM, FILE, SIDE, draw, is_candidate, is_large, lot, main

SHAPES = {
    "A": [(0, 0), (900, 0), (450, 1500)],
    "B": [(0, 0), (300, 0), (300, 1100), (800, 1100), (800, 1500), (0, 1500)],
    "7": [(0, 1300), (700, 1300), (200, 0), (400, 0), (1000, 1500), (0, 1500)],
}


class Drawn:
    """A face of polygons, each a little bolder than in the face before."""

    def __init__(self, bolder, shapes=SHAPES):
        self.bolder, self.shapes = bolder, shapes
        self.names = {ord(character): character for character in shapes}

    def outline(self, character):
        return [
            np.array(self.shapes[character], float) + [[0, self.bolder * (x > 0)] for x, _ in self.shapes[character]]
        ]


@pytest.fixture
def faces(monkeypatch):
    monkeypatch.setattr(draw_glyphs, "FEWEST", 2)
    return {f"Face {number}": Drawn(30 * number) for number in range(3)}


def test_images_are_in_the_order_of_characters_and_faces(faces):
    faces["Face 2"].names.pop(ord("B"))
    arrays = draw(faces)
    assert [(chr(point), face) for point, face in zip(arrays["characters"], arrays["faces"], strict=True)] == [
        *(("7", 0), ("7", 1), ("7", 2), ("A", 0), ("A", 1), ("A", 2), ("B", 0), ("B", 1))
    ]
    assert arrays["ink"].shape == (8, SIDE, SIDE)
    assert arrays["ink"].dtype == np.uint8
    assert arrays["ink"].max() == 16
    inside = arrays["ink"][:, BORDER:-BORDER, BORDER:-BORDER]
    assert inside.sum() == arrays["ink"].sum()


def test_a_glyph_does_not_depend_on_the_others(faces):
    whole, alone = draw(faces), draw({name: Drawn(face.bolder, {"B": SHAPES["B"]}) for name, face in faces.items()})
    assert np.array_equal(whole["ink"][whole["characters"] == ord("B")], alone["ink"])


def test_a_glyph_is_as_long_as_its_lot_says(faces):
    arrays = draw(faces)
    for image, point, face in zip(arrays["ink"], arrays["characters"], arrays["faces"], strict=True):
        assert abs(longer_side(image) - wanted_side(chr(point), f"Face {face}")) <= 2


def longer_side(image):
    """Return the pixels from the first to the last with ink, along the longer side."""
    return max(int(np.ptp(np.flatnonzero(image.any(axis=axis)))) + 1 for axis in (0, 1))


def wanted_side(character, name):
    """Return the longer side that a glyph was given; ends in the middle of pixels add up to two."""
    return 14 + 10 * lot(character, name)[1]


def test_the_file_is_checked_by_what_is_inside(faces, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(draw_glyphs, "open_faces", lambda: faces)
    monkeypatch.setattr(draw_glyphs, "FILE", tmp_path / "glyphs.npz")
    assert main([]) == main(["--check"]) == 0
    faces["Face 1"].bolder = 500
    assert main(["--check"]) == 1
    assert "differs" in capsys.readouterr().out


def test_the_lot_of_a_glyph_is_written_down():
    assert lot("A", "DejaVu Sans") == tuple(value / 65535 for value in (0xCC89, 0xD644, 0x4123, 0x2D6E))  # SHA-256
    drawn = np.array([lot(chr(point), "STIX") for point in range(2000)])
    assert drawn.min() >= 0
    assert drawn.max() <= 1
    assert np.abs(drawn.mean(axis=0) - 0.5).max() < 0.05


def test_the_committed_file_is_of_candidates_only_and_their_lots():
    with np.load(FILE) as arrays:
        ink, points, faces, names = (arrays[name] for name in ("ink", "characters", "faces", "face_names"))
    assert all(is_candidate(chr(point)) for point in np.unique(points))
    assert len(names) == 16
    wanted = [wanted_side(chr(point), str(names[face])) for point, face in zip(points, faces, strict=True)]
    assert np.abs(np.subtract([longer_side(image) for image in ink], wanted)).max() <= 2


def test_kinds_of_characters():
    assert all(map(is_candidate, "AßЖ5€√?ლ"))
    assert not any(
        map(is_candidate, "é→×－ʰ^ \u2500Ⅷ")
    )  # composed, arrow, an x, a dash, a modifier, space, box, number
    small = Drawn(0, {"A": [(0, 0), (EM // 4, 0), (0, EM // 4)]})
    assert not is_large("A", {"small": small})
    assert is_large("A", {"large": Drawn(0), "small": small})
