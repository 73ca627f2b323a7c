"""Sums of an epoch: means over batches and looks, whatever the epoch was cut into."""

import pytest

from shadowmetric.app.training.steps.tally import GAPS, Tally
from shadowmetric.app.training.steps.watch import Look

LOOKS = [
    Look(0.5, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), 0.1),
    Look(0.7, (0.3, 0.4, 0.5), (0.6, 0.7, 0.8), 0.3),
    Look(0.9, (), (), 0.2),
]


def fill(tally, batches, looks):
    for loss in batches:
        tally.add(batches=1, images=32, loss=loss, dead=loss == 0, one_class=False, seconds=0.5)
    for one in looks:
        tally.add_look(one)


def test_means_counts_and_speed():
    tally = Tally({})
    fill(tally, [1.0, 0.0, 2.0], LOOKS)
    line = tally.line()
    assert (line["loss"], line["dead"], line["images"], line["batches"]) == (1.0, 1, 96, 3)
    assert line["images_per_second"] == pytest.approx(64)
    assert line["active"] == pytest.approx(0.7)
    assert line["mean_cosine"] == pytest.approx(0.2)
    assert [line[name] for name in GAPS] == pytest.approx([0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
    assert line["pushed"] is None


def test_a_resumed_epoch_has_the_line_of_a_whole_one():
    whole, sums = Tally({}), {}
    fill(whole, [1.0, 0.0, 2.0], LOOKS)
    fill(Tally(sums), [1.0], LOOKS[:1])
    fill(Tally(dict(sums)), [9.0], [])  # a copy that was lost
    resumed = Tally(sums)
    fill(resumed, [0.0, 2.0], LOOKS[1:])
    assert resumed.line() == whole.line()


def test_an_epoch_without_looks_has_no_figures_of_them():
    tally = Tally({})
    fill(tally, [1.0], [])
    assert tally.line()["active"] is None
    assert Tally({}).line()["loss"] is None
