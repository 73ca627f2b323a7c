"""From a pen's record to polygons."""

import numpy as np
import pytest

from tools.glyphs.outlines import STEPS, curve, face_files, polygons


def test_lines_are_a_polygon_and_each_contour_is_one():
    strokes = [("moveTo", ((0, 0),)), ("lineTo", ((4, 0),)), ("lineTo", ((4, 4),)), ("closePath", ())]
    one, other = polygons(strokes * 2)
    assert one.tolist() == other.tolist() == [[0, 0], [4, 0], [4, 4]]


def test_a_quadratic_curve_has_its_middle_where_it_should():
    points = curve((0, 0), ((2, 4), (4, 0)))
    assert len(points) == STEPS
    assert points[STEPS // 2 - 1] == (2, 2)
    assert points[-1] == (4, 0)


def test_between_two_control_points_the_outline_passes_half_way():
    points = curve((0, 0), ((0, 4), (4, 4), (4, 0)))
    assert points[STEPS - 1] == (2, 4)
    assert len(points) == 2 * STEPS


def test_an_outline_without_a_point_of_its_own_is_a_circle_of_sorts():
    (ring,) = polygons([("qCurveTo", ((0, 0), (4, 0), (4, 4), (0, 4), None)), ("closePath", ())])
    assert ring[0].tolist() == ring[-1].tolist() == [0, 2]
    distances = np.linalg.norm(ring - 2, axis=1)
    assert 2 <= distances.max() <= 2.2
    assert distances.min() == pytest.approx(2)


def test_what_is_no_truetype_outline_is_refused():
    with pytest.raises(ValueError, match="curveTo"):
        polygons([("moveTo", ((0, 0),)), ("curveTo", ((1, 1), (2, 2), (3, 3)))])


def test_there_are_sixteen_faces_of_four_families():
    files = face_files()
    assert len(files) == len(set(files.values())) == 16
    assert files["DejaVu Sans Bold Italic"] == "DejaVuSans-BoldOblique"
    assert files["STIX Italic"] == "STIXGeneralItalic"
