"""Characters that look alike are twins at any size, proportion and small tilt; others are not."""

import numpy as np

from tools.glyphs.raster import place
from tools.glyphs.twins import blur, without_twins


def box(width, height, *more):
    """Return an outline of rectangles."""
    return [
        np.array([[x, y], [x + w, y], [x + w, y + h], [x, y + h]], float)
        for x, y, w, h in ((0, 0, width, height), *more)
    ]


EL = box(10, 60, (10, 0, 30, 10))
TURNED = [np.round(points, 6) for points in place(EL, -15.0, 400.0, 500, (0.5, 0.5))]
TURNED = [points * (1, -1) for points in TURNED]  # pixels fall, font units rise


class Drawn:
    """A face of given outlines."""

    def __init__(self, **outlines):
        self.outlines = outlines
        self.names = {ord(character): character for character in outlines}

    def outline(self, character):
        return self.outlines[character]


def kept(**outlines):
    return "".join(without_twins(sorted(outlines), {"only": Drawn(**outlines)}))


def test_the_first_of_twins_stays():
    assert kept(a=EL, b=[3 * points + 7 for points in EL], c=box(60, 10)) == "ac"


def test_a_small_tilt_makes_no_other_character_and_a_mirror_does():
    mirrored = [points * (-1, 1) for points in EL]
    assert kept(a=EL, b=TURNED, c=mirrored) == "ac"


def test_a_proportion_is_no_difference():
    assert kept(a=EL, b=[points * (1.6, 1) for points in EL]) == "a"


def test_alike_in_one_face_is_enough_and_a_face_without_the_character_says_nothing():
    first, second = Drawn(a=EL, b=box(60, 10), c=EL), Drawn(a=EL, b=EL)
    assert without_twins(["a", "b", "c"], {"first": first}) == ["a", "b"]
    assert without_twins(["a", "b", "c"], {"first": first, "second": second}) == ["a"]


def test_the_blur_keeps_sixteen_times_the_ink():
    image = np.zeros((1, 5, 5), dtype=np.int64)
    image[0, 2, 2] = 3
    assert blur(image)[0, 1:4, 1:4].tolist() == [[3, 6, 3], [6, 12, 6], [3, 6, 3]]
    assert blur(image).sum() == 16 * 3
