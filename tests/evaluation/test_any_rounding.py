"""No score depends on how products are rounded, on the scratch, or on the scale of a row."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_rows import KINDS, batches, made_rows
from random_rounding import random_rounding

from shadowmetric.evaluation.clusters import k_means
from shadowmetric.evaluation.comparison import Sets
from shadowmetric.evaluation.evaluate import MEASURES, evaluate
from shadowmetric.evaluation.silhouette import DISTANCES, silhouette
from shadowmetric.ops.exact_rows import ExactUnitRows
from shadowmetric.ops.row_lengths import power_of_two
from shadowmetric.ops.top_k import top_k

RANKED = tuple(name for name in MEASURES if name != "collapse")  # collapse is decompositions, to the last digits
TO_LAST_DIGITS = {"nmi", "ami"}  # sums of logarithms; the clusters are compared themselves


def given_labels(count, seed):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 4, count))


def figures(rows, labels, **settings):
    scores = evaluate(rows, labels, measures=RANKED, progress=False, **settings)
    found = {name: getattr(scores, name) for name in ("recall_at", "precision_at", "r_precision", "map_at_r")}
    found |= {"reciprocal_rank": scores.reciprocal_rank, "silhouette": scores.silhouette, "nmi": scores.nmi}
    found |= {"accuracy": scores.accuracy, "verification": scores.verification, "ami": scores.ami}
    found |= {f"each {name}": values.tolist() for name, values in scores.per_query.items()}
    found["neighbors"] = (scores.vote.row.tolist(), scores.vote.similarity.tolist())
    return found


def same(found, wanted):
    for name, figure in wanted.items():
        if name in TO_LAST_DIGITS:
            assert found[name] == pytest.approx(figure, abs=1e-12, nan_ok=True)
        else:
            assert repr(found[name]) == repr(figure), name  # NaN is NaN


@settings(max_examples=8)  # every measure, several times each
@given(batches(most_rows=40), st.integers(0, 99), st.sampled_from([1, 3000, 20_000, 2**25]))
def test_scores_are_the_same_for_any_rounding_and_scratch(rows, seed, scratch):
    rows, labels = torch.from_numpy(rows).float(), given_labels(len(rows), seed)
    wanted = figures(rows, labels)
    with random_rounding(seed) as rounding:
        same(figures(rows, labels, scratch_bytes=scratch), wanted)
    assert rounding.calls
    gallery = {"gallery": rows.flip(0), "gallery_labels": labels.flip(0)}
    wanted = figures(rows, labels, **gallery)
    with random_rounding(seed + 1):
        same(figures(rows, labels, scratch_bytes=scratch, **gallery), wanted)


@settings(max_examples=8)  # every measure, several times each
@given(batches(most_rows=30), st.integers(0, 99), st.sampled_from([torch.float32, torch.float64]))
def test_the_scale_of_a_row_never_matters(rows, seed, dtype):
    rows, labels = torch.from_numpy(rows).to(dtype), given_labels(len(rows), seed)
    smallest = {torch.float32: -80, torch.float64: -500}[dtype]  # no digit is lost
    exponents = torch.from_numpy(np.random.default_rng(seed).integers(smallest, 50, (len(rows), 1)))
    rows = torch.where(rows.abs() > 2.0**-30, rows, 0.0)
    scaled = (rows.double() * power_of_two(exponents)).to(dtype)  # ldexp of torch 2.4 has powers in float32 alone
    same(figures(scaled, labels), figures(rows, labels))


def test_short_rows_are_as_good_as_long_ones():
    labels = torch.arange(60) % 6
    rows = torch.nn.functional.one_hot(labels, 8).float() + 0.2 * torch.randn(60, 8)
    wanted = evaluate(rows, labels, measures=["recall_at", "silhouette"], progress=False)
    for scale in (1e-20, 1e-30, 1e-12, 1e15):
        found = evaluate(rows * scale, labels, measures=["recall_at", "silhouette"], progress=False)
        assert found.recall_at == wanted.recall_at
        assert found.silhouette == pytest.approx(wanted.silhouette, abs=1e-5)


@given(batches(), st.integers(1, 20), st.integers(0, 99), st.sampled_from([1, 5000, 2**25]))
def test_clusters_are_the_same_for_any_rounding_and_scratch(rows, clusters, seed, scratch):
    rows = torch.from_numpy(rows).float()
    wanted = k_means(rows, clusters, seed=seed, scratch_bytes=2**25)
    with random_rounding(seed) as rounding:
        assert torch.equal(k_means(rows, clusters, seed=seed, scratch_bytes=scratch), wanted)
    assert rounding.entries == 0  # there is nothing that could be rounded


def test_a_row_between_equal_centers_goes_to_the_first():
    rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    found = {tuple(k_means(rows, 2, seed=seed, iterations=1, scratch_bytes=2**20).tolist()) for seed in range(20)}
    assert all(one[2] == one[3] for one in found)
    equal = torch.ones(9, 5)
    assert k_means(equal, 3, scratch_bytes=2**20).tolist() == [0] * 9


@given(batches(most_rows=40), st.integers(0, 99), st.sampled_from(DISTANCES), st.sampled_from([1, 5000, 2**25]))
def test_silhouettes_are_the_same_for_any_rounding(rows, seed, distance, scratch):
    rows, labels = torch.from_numpy(rows).float(), given_labels(len(rows), seed)
    sets = Sets(rows, labels, rows, labels, None)
    wanted = silhouette(sets, distance=distance, scratch_bytes=2**25)
    with random_rounding(seed):
        found = silhouette(sets, distance=distance, scratch_bytes=scratch)
    if distance == "euclidean":
        assert torch.equal(found.nan_to_num(9), wanted.nan_to_num(9))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9, equal_nan=True)
    assert torch.equal(found == 0, wanted == 0)  # ties stay ties


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_row_as_near_to_another_class_as_to_its_own_scores_zero(distance):
    draw = torch.Generator().manual_seed(0)
    own = torch.randn(50, 12, generator=draw)
    mirrored = own.clone()
    mirrored[:, 6:] *= -1
    center = torch.cat([torch.randn(6, generator=draw), torch.zeros(6)])[None]
    rows = torch.cat([center, own, mirrored.flip(0)])
    labels = torch.tensor([0] * 51 + [1] * 50)
    sets = Sets(rows[:1], labels[:1], rows, labels, None)
    for seed in range(5):
        with random_rounding(seed):
            assert silhouette(sets, distance=distance, scratch_bytes=30_000).tolist() == [0.0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_nearest_are_the_same_for_any_rounding(kind):
    rows = torch.from_numpy(made_rows(kind, 90, 20, 0)).float()
    wanted = top_k(ExactUnitRows(rows), ExactUnitRows(rows), 7, own=torch.arange(90))
    for seed, scratch in ((0, 1), (1, 30_000)):
        with random_rounding(seed) as rounding:
            found = top_k(ExactUnitRows(rows), ExactUnitRows(rows), 7, own=torch.arange(90), scratch_bytes=scratch)
        assert torch.equal(found.row, wanted.row)
        assert torch.equal(found.similarity, wanted.similarity)
        assert rounding.exact >= 90 * 90
