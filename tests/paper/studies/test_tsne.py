"""Two planes in one image: every point drawn, names escaped."""

from xml.etree import ElementTree

from paper.studies.tsne import SIDE, TOP, image


def test_every_point_is_drawn_inside_its_panel_in_the_color_of_its_class():
    plane = {"x": [0.0, 10.0, -30.0], "y": [5.0, 1.0, 2.0]}
    found = {"labels": [0, 1, 0], "perplexity": 1.5, "seed": 0, "of": 1000, "classes": ["a<b>", "c & d"]}
    text = image(found | {"planes": {"shadow": plane, "triplet": plane}})
    tree = ElementTree.fromstring(text)
    circles = [one for one in tree.iter() if one.tag.endswith("circle") and one.get("r") == "2.2"]
    assert len(circles) == 6
    assert circles[0].get("fill") == circles[2].get("fill") != circles[1].get("fill")
    assert all(TOP <= float(one.get("cy") or 0) <= TOP + SIDE for one in circles)
    words = " ".join(tree.itertext())
    assert "a<b>" in words
    assert "3 of 1,000 test images" in words
