"""One triplet in the plane: gradients by closed formulas, both losses alike on unit rows, the image."""

import json
import math
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from paper.studies.geometry import MARGIN, RATE, ROWS, gradient_of, image, measure, tables

HOME = Path(__file__).parents[3]
FREE = torch.tensor(ROWS, dtype=torch.float64)
UNIT = FREE / FREE.norm(dim=1, keepdim=True)
OVERSHOOTING = torch.tensor([(1.0, 0.2), (1.5, 0.3), (1.1, -0.4)], dtype=torch.float64)  # σ is −1 of both


@pytest.fixture(scope="module")
def found():
    return measure("smoke")


def rows_of(state, key="rows"):
    return torch.tensor(list(state[key].values()), dtype=torch.float64)


@pytest.mark.parametrize("rows", [FREE, OVERSHOOTING], ids=["short", "overshooting"])
def test_the_gradients_of_shadow_on_free_rows(rows):
    """maths.md: −σ u of a row, σ (u − (x − (u·x) u) / |a|) of the anchor; of the negative with the other sign."""
    a, p, n = rows
    u = a / a.norm()

    def sign(x):
        return torch.sign(a.norm() - u @ x)

    def of_anchor(x):
        return sign(x) * (u - (x - (u @ x) * u) / a.norm())

    expected = torch.stack([of_anchor(p) - of_anchor(n), -sign(p) * u, sign(n) * u])
    torch.testing.assert_close(gradient_of(rows, "shadow", normalize=False), expected)


def test_the_gradients_of_triplet_on_free_rows():
    a, p, n = FREE
    expected = 2 * torch.stack([n - p, p - a, a - n])
    torch.testing.assert_close(gradient_of(FREE, "triplet", normalize=False), expected)


@pytest.mark.parametrize(("loss", "factor"), [("shadow", 1.0), ("triplet", 2.0)])
def test_the_gradients_on_unit_rows(loss, factor):
    a, p, n = UNIT

    def across(x, axis):
        return x - (axis @ x) * axis

    expected = factor * torch.stack([across(n - p, a), -across(a, p), across(a, n)])
    torch.testing.assert_close(gradient_of(UNIT, loss, normalize=True), expected)


def test_the_record_holds_the_steps_of_these_gradients(found):
    for kind, rows in (("free", FREE), ("unit", UNIT)):
        for loss in ("triplet", "shadow"):
            step = found[kind][loss]
            torch.testing.assert_close(rows_of(step, "stepped_to"), rows - RATE * rows_of(step, "gradient"))


def test_on_unit_rows_both_losses_step_the_same_way(found):
    triplet, shadow, twice = (found["unit"][name] for name in ("triplet", "shadow", "shadow_twice"))
    torch.testing.assert_close(rows_of(triplet, "gradient"), 2 * rows_of(shadow, "gradient"))
    torch.testing.assert_close(rows_of(twice), rows_of(triplet))
    torch.testing.assert_close(rows_of(triplet).norm(dim=1), torch.ones(3, dtype=torch.float64))
    free = found["free"]
    assert not torch.allclose(rows_of(free["triplet"], "gradient"), 2 * rows_of(free["shadow"], "gradient"), atol=0.1)


def test_on_free_rows_shadow_leaves_rows_as_far_aside_as_they_were(found):
    before, shadow, triplet = (found["free"][name]["aside"] for name in ("before", "shadow", "triplet"))
    assert shadow == pytest.approx(before)
    assert abs(triplet["positive"]) < 0.9 * before["positive"]


def test_losses_and_measures_follow_from_the_rows(found):
    for kind in ("free", "unit"):
        for state in found[kind].values():
            gap, squared, loss = state["gap"], state["squared_distance"], state["loss"]
            assert loss["shadow"] == pytest.approx(max(gap["positive"] - gap["negative"] + MARGIN, 0))
            assert loss["triplet"] == pytest.approx(max(squared["positive"] - squared["negative"] + MARGIN, 0))
            if kind == "unit":
                cosine = math.cos(math.radians(state["degrees"]["positive"]))
                assert gap["positive"] == pytest.approx(1 - cosine) == pytest.approx(squared["positive"] / 2)


def test_no_gradient_leaves_the_plane_and_each_step_lowers_its_loss(found):
    for kind in ("free", "unit"):
        for loss in ("triplet", "shadow"):
            assert found[kind][loss]["gradient_out_of_the_plane"] < 1e-12
            assert found[kind][loss]["loss"][loss] < found[kind]["before"]["loss"][loss]


def test_the_tables(found):
    states, gradients, claims = tables(found)
    rows = {row[0]: row[1:] for row in states.rows}
    assert rows["unit rows, after Triplet"] == rows["unit rows, after Shadow, twice the rate"]
    along = {row[0]: row[1:] for row in gradients.rows}
    assert along["free rows, shadow"][1:] == ("-1.000, 0.000", "1.000, 0.000")
    assert [row[1].split(":")[0].split(",")[0] for row in claims.rows] == [
        "on unit rows both do",
        "yes",
        "yes",
        "yes",
        "yes",
    ]


def test_the_image_is_a_whole_svg_with_the_figures(found):
    svg = image(found)
    root = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title") is not None
    described = str(root.findtext(f"{space}desc"))
    words = " ".join(str(one.text) for one in root.iter(f"{space}text"))
    for kind, name, measure_, loss in (
        ("free", "before", "squared_distance", "triplet"),
        ("free", "triplet", "squared_distance", "triplet"),
        ("unit", "triplet", "squared_distance", "triplet"),
        ("free", "before", "gap", "shadow"),
        ("free", "shadow", "gap", "shadow"),
        ("unit", "shadow", "gap", "shadow"),
    ):
        state = found[kind][name]
        to_p, to_n = state[measure_].values()
        assert f"to p {to_p:.3f}, to n {to_n:.3f}; loss {state['loss'][loss]:.3f}" in words
    assert f"{found['free']['before']['aside']['positive']:.3f}" in described
    assert f"rate {RATE:g}" in words


def test_the_committed_record_and_image_are_what_would_be_made_now():
    now = measure("small")
    record = json.loads((HOME / "paper" / "records" / "small" / "geometry.json").read_text("utf-8"))["found"]
    assert tables(record) == tables(now)
    assert (HOME / "docs" / "images" / "geometry.svg").read_text("utf-8") == image(now)
