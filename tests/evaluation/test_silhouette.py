"""Silhouette equals plain loops and scikit-learn, for each distance and any block."""

import pytest
import reference
import torch
from batches import batches, plain_batch
from hypothesis import given
from hypothesis import strategies as st

from shadowmetric.evaluation.comparison import Sets
from shadowmetric.evaluation.silhouette import DISTANCES, silhouette


def measured(embeddings, labels, distance="euclidean", scratch=2**26, chosen=None):
    chosen = torch.arange(len(labels)) if chosen is None else chosen
    sets = Sets(embeddings[chosen], labels[chosen], embeddings, labels, None)
    return silhouette(sets, distance=distance, scratch_bytes=scratch)


@given(batches(exact=True), st.sampled_from(DISTANCES), st.sampled_from([1, 3000, 2**26]))
def test_equal_to_the_loops_on_rows_full_of_ties_and_duplicates(batch, distance, scratch):
    embeddings, labels = batch
    wanted = torch.tensor(reference.silhouette_values(embeddings, labels, distance=distance), dtype=torch.float64)
    found = measured(embeddings, labels, distance, scratch)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9, equal_nan=True)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("per_class", [1, 2, 9, 30])
def test_equal_to_the_loops_on_ordinary_rows(distance, per_class):
    embeddings, labels = plain_batch(40, per_class=per_class)
    embeddings[7] = 0.0  # a row without a direction
    wanted = torch.tensor(reference.silhouette_values(embeddings, labels, distance=distance), dtype=torch.float64)
    torch.testing.assert_close(measured(embeddings, labels, distance), wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("per_class", [2, 9, 150])
@pytest.mark.parametrize(
    ("distance", "metric"), [("euclidean", "euclidean"), ("cosine", "cosine"), ("squared", "sqeuclidean")]
)
def test_equal_to_scikit_learn(per_class, distance, metric):
    metrics = pytest.importorskip("sklearn.metrics")
    embeddings, labels = plain_batch(300, dim=16, per_class=per_class, dtype=torch.float32)
    labels = labels[torch.randperm(300, generator=torch.Generator().manual_seed(0))]
    unit = torch.nn.functional.normalize(embeddings.double())
    theirs = torch.from_numpy(metrics.silhouette_samples(unit.numpy(), labels.numpy(), metric=metric))
    torch.testing.assert_close(measured(embeddings, labels, distance), theirs, rtol=0, atol=1e-9)


def test_blocks_that_cut_classes_change_nothing():
    embeddings, labels = plain_batch(500, per_class=70)
    whole = measured(embeddings, labels)
    for scratch in (1, 20_000, 300_000):
        torch.testing.assert_close(measured(embeddings, labels, scratch=scratch), whole, rtol=0, atol=1e-12)


def test_squared_and_cosine_are_the_same_silhouette():
    embeddings, labels = plain_batch(90)
    torch.testing.assert_close(measured(embeddings, labels, "squared"), measured(embeddings, labels, "cosine"))


def test_some_queries_have_the_values_of_the_whole_set():
    embeddings, labels = plain_batch(50)
    chosen = torch.tensor([0, 13, 14, 49])
    for distance in DISTANCES:
        whole = measured(embeddings, labels, distance)
        torch.testing.assert_close(measured(embeddings, labels, distance, chosen=chosen), whole[chosen])


def test_duplicates_everywhere_score_zero_and_tight_classes_one():
    labels = torch.tensor([0, 0, 1, 1])
    for distance in DISTANCES:
        equal = torch.randn(1, 700).expand(4, 700)
        assert measured(equal, labels, distance).tolist() == [0.0] * 4
        apart = torch.eye(2)[labels] * torch.tensor([1.0, 2.0, 3.0, 0.1])[:, None]
        assert measured(apart, labels, distance).tolist() == [1.0] * 4


def test_one_class_has_no_silhouette():
    assert measured(torch.randn(5, 3), torch.zeros(5, dtype=torch.int64)).isnan().all()
