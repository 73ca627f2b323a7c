"""The vote of the nearest neighbors equals plain loops and scikit-learn."""

import pytest
import reference
import torch
from batches import batches, plain_batch, with_references
from hypothesis import given
from hypothesis import strategies as st

from shadowmetric.evaluation.comparison import Sets
from shadowmetric.evaluation.neighbors import vote


def predictions(sets, k, scratch=2**26):
    found = vote(sets, k, scratch_bytes=scratch)
    return [
        label if known else None for label, known in zip(found.prediction.tolist(), found.known.tolist(), strict=True)
    ]


@given(batches(), st.sampled_from([1, 2, 5, 99]), st.sampled_from([1, 2**26]))
def test_leave_one_out_equals_the_loops(batch, k, scratch):
    embeddings, labels = batch
    sets = Sets(embeddings, labels, embeddings, labels, torch.arange(len(labels)))
    assert predictions(sets, k, scratch) == reference.knn_predictions(embeddings, labels, k=k)


@given(with_references(), st.sampled_from([1, 2, 5, 99]))
def test_query_against_gallery_equals_the_loops(batch, k):
    assert predictions(Sets(*batch, None), k) == reference.knn_predictions(*batch, k=k)


def test_neighbors_are_gallery_rows_nearest_first():
    gallery = torch.tensor([[1.0, 3.0], [1.0, 0.1], [1.0, 1.0], [1.0, 0.0]])
    found = vote(
        Sets(torch.tensor([[2.0, 0.0]]), torch.tensor([1]), gallery, torch.tensor([1, 2, 1, 2]), None),
        3,
        scratch_bytes=2**20,
    )
    assert found.row.tolist() == [[3, 1, 2]]
    assert found.prediction.tolist() == [2]
    torch.testing.assert_close(found.similarity, torch.tensor([[1.0, 0.995037, 0.707107]]).double(), atol=1e-6, rtol=0)


def test_a_tie_of_votes_goes_to_the_class_with_the_nearest_neighbor():
    gallery = torch.tensor([[1.0, 0.1], [1.0, 0.2], [1.0, 0.3], [1.0, 0.4], [1.0, 0.5]])
    sets = Sets(torch.tensor([[1.0, 0.0]]), torch.tensor([0]), gallery, torch.tensor([9, 3, 3, 9, 5]), None)
    assert predictions(sets, 5) == [9]
    assert predictions(sets, 3) == [3]


@pytest.mark.parametrize("k", [1, 3])
def test_equal_to_scikit_learn(k):
    neighbors = pytest.importorskip("sklearn.neighbors")
    query, labels = plain_batch(200, per_class=100, dtype=torch.float32)
    gallery, gallery_labels = plain_batch(300, per_class=150, seed=1, dtype=torch.float32)  # two classes: no tied votes
    theirs = neighbors.KNeighborsClassifier(k, metric="cosine").fit(gallery.numpy(), gallery_labels.numpy())
    assert predictions(Sets(query, labels, gallery, gallery_labels, None), k) == theirs.predict(query.numpy()).tolist()
