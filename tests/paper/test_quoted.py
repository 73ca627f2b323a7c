"""The paper's figures: each once, of losses and figures that we know."""

import hashlib
from collections import Counter
from importlib.resources import files

from paper.quoted import find_quoted, quoted_value
from shadowmetric.losses.catalogue import PAPER_LOSSES

CHECKED = "ee6add63fe5f5fa74061734c5a6d444523caa6d2073a28454a213fd110c5ba85"


def test_the_file_is_the_one_that_was_compared_with_the_paper_figure_by_figure():
    text = (files("paper") / "quoted.csv").read_bytes()
    assert hashlib.sha256(text).hexdigest() == CHECKED


def test_each_figure_stands_once():
    found = find_quoted()
    assert len(found) == 213
    assert max(Counter((one.table, one.dataset, one.loss, one.figure) for one in found).values()) == 1
    assert {one.loss for one in found} == set(PAPER_LOSSES)
    assert all(one.where for one in found)


def test_shadow_leads_every_recall_at_1_as_the_paper_says():
    for dataset in ("cars196", "cub200", "sop", "inshop", "cifar10", "fashion_mnist"):
        values = {one.loss: one.value for one in find_quoted(dataset=dataset, figure="recall_at_1")}
        assert max(values, key=lambda loss: values[loss]) == "shadow"


def test_the_reductions_of_the_memory_table_follow_from_its_rows():
    stated = {"cars196": 17.2, "cub200": 16.6, "sop": 16.6, "inshop": 16.4, "cifar10": 16.4, "fashion_mnist": 16.8}
    for dataset, reduction in stated.items():
        shadow, triplet = (quoted_value("memory", dataset, loss, "peak_gb") or 0 for loss in ("shadow", "triplet"))
        assert abs(100 * (1 - shadow / triplet) - reduction) < 0.06


def test_words_are_as_printed():
    (one,) = find_quoted("medical", "ham10000", "shadow")
    assert one.words == "44.92 ± 0.60"
    assert find_quoted("fine-grained", "cub200", "triplet", "silhouette")[0].words == "-0.0736"
    assert quoted_value("standard", "mnist", "soft_triple", "accuracy") is None
