"""Tables of records: what is quoted, what is measured, and intervals over seeds by Student's t."""

import math

import pytest
from made_records import like_the_paper, made_record
from scipy import stats

from paper.beside import (
    beside_paper,
    collapse_table,
    difference,
    gradients_table,
    interval,
    ways_table,
)
from shadowmetric.app.report.tables import Table, as_markdown


def test_an_interval_is_that_of_a_paired_t_test():
    values = [0.3, -0.1, 0.4, 0.2]
    found = interval(values)
    wanted = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (found.mean, found.low, found.high) == pytest.approx((0.2, wanted.low, wanted.high))
    assert found.sign == 0
    assert interval([0.3, 0.31, 0.32]).sign == 1
    assert interval([-0.3, -0.31, -0.32]).sign == -1
    alone = interval([0.5])
    assert (alone.low, alone.sign, alone.seeds) == (None, 0, 1)


def test_only_seeds_that_both_have_are_compared():
    record = made_record(shadow={"accuracy": [0.5, 0.6, 0.9]}, triplet={"accuracy": [0.4, 0.4]})
    found = difference(record, "accuracy")
    assert found is not None
    assert found.seeds == 2
    assert math.isclose(found.mean, 0.15)
    assert difference(record, "accuracy", "shadow", "soft_triple") is None


def test_the_paper_stands_beside_ours():
    table = beside_paper(made_record(**like_the_paper()), "standard", ("recall_at_1", "silhouette"))
    assert table.title == "CIFAR-10"
    shadow, triplet, control = table.rows
    assert shadow[:5] == ("Shadow", "97.31", "55.00 ± 0.10", "0.7039", "0.550 ± 0.001")
    assert triplet[1] == "97.02"
    assert triplet[-1].startswith("+5.00 (")
    assert control[1] == "–"  # the paper has no control
    assert table.kinds == ("loss", "loss", "control")
    assert "made-up" in table.caption
    assert "Reduced: all." in table.caption
    assert "abc" in table.caption


def test_columns_without_a_figure_are_left_out():
    table = beside_paper(made_record("mnist", **like_the_paper()), "standard", ("accuracy", "recall_at_1"))
    assert "accuracy, %, quoted" in table.headings
    assert "Recall@1, %, quoted" not in table.headings


def test_other_tables():
    record = made_record(**like_the_paper())
    ways = ways_table({"a way": record})
    assert ways.rows[0][:3] == ("a way", "3", "55.00 ± 0.10")
    gradients = gradients_table({"CIFAR-10": record})
    assert gradients.rows[0][-1] == "2.53"
    assert gradients.rows[1][-1] == "1.10"
    collapse = collapse_table({"unit rows": (record, record), "free rows": (record, None)})
    assert len(collapse.rows) == 3  # two losses and the control; no row without both records
    assert collapse.rows[0][1:3] == ("0.0078", "0.5500 ± 0.0010")
    assert collapse.rows[0][-1].startswith("+0.00")


def test_markdown_keeps_bars_inside_their_cells():
    table = Table("t", "caption", ("a", "b"), (("x|y", "1"), ("floor", "2")), ("loss", "floor"))
    assert as_markdown(table) == "| a | b |\n|---|---|\n| x\\|y | 1 |\n| *floor* | 2 |\n\ncaption\n"
    with pytest.raises(ValueError, match="headings"):
        Table("t", "", ("a",), (("x", "y"),), ("",))
