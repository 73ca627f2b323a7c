"""The README's image: a line for each library as far as it came, where its figures say."""

import re
from xml.etree import ElementTree

from tools.pages.sizes_image import PANELS, caption, image, place


def row(contender, batch, megabytes, milliseconds):
    figures = {"peak_extra_mb": megabytes, "total_ms": milliseconds}
    return {"contender": contender, "batch": str(batch), "dim": "128", "per_class": "5", "torch": "2.15.0+cu"} | figures


ROWS = [row("ours", batch, "10", "100") for batch in (256, 512, 1024)] + [
    row("pml", 256, "100", "1000"),
    row("pml", 512, "1000", "10000"),
    row("pml", 1024, "", ""),  # it did not finish
]


def test_a_line_ends_at_the_largest_batch_that_was_finished():
    marks = [mark for mark in ElementTree.fromstring(image(ROWS)).iter() if mark.tag.endswith("circle")]
    by_color = [mark.get("fill") for mark in marks]
    assert [by_color.count(color) for color in ("#12704a", "#b93a0b")] == [2 * 3 + 2, 2 * 2 + 2]  # and the legend
    assert "sentence-transformers" not in image(ROWS)  # nothing of it was measured


def test_figures_stand_at_their_decade():
    memory, _ = PANELS
    low, high = (place(memory, [256, 512, 1024], one) for one in (ROWS[0], ROWS[4]))
    assert low[0] == memory.left
    assert high[0] > low[0]
    per_decade = (low[1] - high[1]) / 2  # 10 and 1,000 MB are two apart
    assert per_decade * (memory.highest - memory.lowest) == 296


def test_the_words_are_for_those_who_can_not_see_it():
    assert caption(ROWS) == "pytorch-metric-learning, 512 rows: 1,000 MB, 10 s. shadowmetric, 1,024 rows: 10 MB, 0.1 s."
    assert re.search(r"<desc id='desc'>pytorch-metric-learning, 512", image(ROWS))
