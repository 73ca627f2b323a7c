"""NMI and AMI equal the plain loops and scikit-learn, for any labels, in little memory."""

import math

import pytest
import reference
import torch
from batches import labels as some_labels
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score
from sklearn.metrics.cluster import expected_mutual_information as sklearn_expected
from test_memory import LargestAllocation

from shadowmetric.evaluation import mutual_information as room
from shadowmetric.evaluation.mutual_information import (
    Contingency,
    ami,
    contingency,
    expected_mutual_information,
    mutual_information,
    nmi,
)


@st.composite
def partitions(draw):
    rows = draw(st.integers(1, 24))
    return draw(some_labels(rows)), draw(some_labels(rows))


def random_partitions(items, classes, clusters, agree=0.5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (items,), generator=generator)
    other = torch.randint(clusters, (items,), generator=generator)
    return labels, torch.where(torch.rand(items, generator=generator) < agree, labels % clusters, other)


def plain_expected(class_sizes, cluster_sizes):
    items = sum(class_sizes)
    return math.fsum(reference.expected_information(a, b, items) for a in class_sizes for b in cluster_sizes)


@given(partitions())
def test_scores_equal_the_loops_and_scikit_learn(pair):
    loops = reference.mutual_information_scores(*pair)
    assert (nmi(*pair), ami(*pair)) == pytest.approx(loops, abs=1e-12)
    theirs = normalized_mutual_info_score(*pair), adjusted_mutual_info_score(*pair)
    assert (nmi(*pair), ami(*pair)) == pytest.approx(theirs, abs=1e-10)


@pytest.mark.parametrize(("classes", "clusters"), [(2, 3), (40, 7), (300, 500), (1500, 1200)])
def test_larger_partitions_equal_scikit_learn(classes, clusters):
    pair = random_partitions(3000, classes, clusters)
    assert nmi(*pair) == pytest.approx(normalized_mutual_info_score(*pair), abs=1e-12)
    assert ami(*pair) == pytest.approx(adjusted_mutual_info_score(*pair), abs=1e-10)


@given(partitions())
def test_contingency_counts_each_pair_that_occurs(pair):
    rows = list(zip(*(side.tolist() for side in pair), strict=True))
    shared = contingency(*pair)
    cells = list(zip(shared.label.tolist(), shared.cluster.tolist(), shared.items.tolist(), strict=True))
    assert cells == [(*cell, rows.count(cell)) for cell in sorted(set(rows))]
    assert shared.class_size.tolist() == [pair[0].tolist().count(label) for label, _, _ in cells]
    assert shared.cluster_size.tolist() == [pair[1].tolist().count(cluster) for _, cluster, _ in cells]
    assert int(shared.class_sizes.sum()) == int(shared.cluster_sizes.sum()) == len(rows)


@given(partitions(), st.sampled_from([-(2**63), -5, 2**62]))
def test_names_and_sides_do_not_matter(pair, shift):
    labels, clusters = pair
    _, renamed = torch.unique(labels, return_inverse=True)
    for score in (nmi, ami):
        assert score(renamed + shift, clusters) == pytest.approx(score(labels, clusters), abs=1e-14)
        assert score(clusters, labels) == pytest.approx(score(labels, clusters), abs=1e-12)


@pytest.mark.parametrize(
    "sizes",
    [
        ([1000, 1000], [1999, 1]),
        ([700, 700, 600], [900, 1100]),
        ([1] * 500 + [1500], [2] * 1000),
        ([1900, 50, 50], [1950, 25, 25]),  # overlaps of at least 1850
        (list(range(1, 50)), [1225]),
    ],
)
def test_expected_information_equals_exact_fractions(sizes):
    expected = expected_mutual_information(*(torch.tensor(side) for side in sizes))
    assert expected == pytest.approx(plain_expected(*sizes), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("size", [1, 3, 40, 1000, 60_000, 150_000])
def test_the_window_leaves_nothing_out(size, monkeypatch):
    class_sizes, cluster_sizes = torch.tensor([size, 200_000 - size]), torch.tensor([90_000, 110_000])
    windowed = expected_mutual_information(class_sizes, cluster_sizes)
    monkeypatch.setattr(room, "TAIL", 1e5)  # everything possible
    whole = expected_mutual_information(class_sizes, cluster_sizes)
    assert windowed == pytest.approx(whole, rel=1e-10)
    assert windowed == pytest.approx(two_by_two(size), rel=1e-8)


def two_by_two(size, items=200_000, other=90_000):
    """E[MI] of two classes and two clusters: one overlap decides the other three. By lgamma, one overlap at a time."""
    sizes = [(size, other), (size, items - other), (items - size, other), (items - size, items - other)]
    overlaps = range(max(0, size + other - items), min(size, other) + 1)
    tables = [(n, size - n, other - n, items - size - other + n) for n in overlaps]
    logs = [-math.fsum(math.lgamma(cell + 1) for cell in table) for table in tables]
    largest = max(logs)
    weights = [math.exp(value - largest) for value in logs]
    values = [
        math.fsum(reference.information(cell, *pair, items) for cell, pair in zip(table, sizes, strict=True))
        for table in tables
    ]
    return math.fsum(map(math.prod, zip(weights, values, strict=True))) / math.fsum(weights)


@pytest.mark.parametrize("terms", [1, 100])
def test_blocks_do_not_matter(terms, monkeypatch):
    pair = random_partitions(500, 30, 40)
    whole = ami(*pair)
    monkeypatch.setattr(room, "TERMS_AT_ONCE", terms)
    assert ami(*pair) == pytest.approx(whole, abs=1e-13)


def test_ten_thousand_classes_and_clusters_in_little_memory():
    labels, clusters = random_partitions(200_000, 10_000, 10_000)
    with LargestAllocation([labels, clusters]) as seen:
        score = ami(labels, clusters)
    assert seen.largest < 4 * 2**20, seen.where
    assert 0.3 < score < nmi(labels, clusters) < 1
    random = random_partitions(200_000, 10_000, 10_000, agree=0.0)
    assert nmi(*random) > 0.5  # which is why there is AMI
    assert abs(ami(*random)) < 0.01


def test_every_size_from_one_to_three_hundred_equals_scikit_learn():
    sizes = torch.arange(1, 301)
    labels = torch.repeat_interleave(sizes, sizes)
    table = torch.diag(sizes).numpy()
    assert expected_mutual_information(sizes, sizes) == pytest.approx(sklearn_expected(table, len(labels)), rel=1e-8)


@pytest.mark.parametrize("score", [nmi, ami])
def test_trivial_partitions(score):
    one, own, huge = torch.zeros(6).long(), torch.arange(6), torch.tensor([2**63 - 1, -(2**63)] * 3)
    assert score(one, one + 5) == 1.0
    assert score(own, own.flip(0)) == 1.0
    assert score(huge, huge.flip(0)) == 1.0
    assert score(one, own) == score(own, one) == 0.0
    assert score(one[:1], one[:1]) == 1.0
    assert score(one[:0], one[:0]) == 1.0
    assert score(huge.sign().int(), huge) == 1.0


def test_independent_partitions_share_nothing():
    labels, clusters = torch.arange(12) // 6, torch.arange(12) % 3
    assert nmi(labels, clusters) == 0.0
    assert ami(labels, clusters) < 0


def test_rounding_makes_no_information_negative():
    for k in range(2 * 10**8, 2 * 10**8 + 50):
        sizes = torch.tensor([2 * k + 1, 2 * k + 1])
        items = torch.tensor([k + 1, k, k, k + 1])  # as near to independence as can be
        pair = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])
        shared = Contingency(*pair, items, sizes.repeat(2), sizes.repeat(2), sizes, sizes)
        assert 0 <= mutual_information(shared) < 1e-15


@pytest.mark.parametrize("score", [nmi, ami, contingency])
def test_refusals(score):
    good = torch.arange(4)
    with pytest.raises(ValueError, match=r"clusters has shape \(3,\) for 4 rows of labels"):
        score(good, good[:3])
    with pytest.raises(ValueError, match=r"labels is torch.float32"):
        score(good.float(), good)
    with pytest.raises(ValueError, match=r"labels has shape \(2, 2\)"):
        score(good.view(2, 2), good)
