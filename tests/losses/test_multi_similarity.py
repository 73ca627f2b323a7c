"""Multi-Similarity without an epsilon: every pair counts, those of rows without a positive or a negative too."""

import pytest
import reference
import torch
from batches import batches, plain_batch, with_references
from hypothesis import given
from hypothesis import strategies as st

import shadowmetric as sm

EVERY = {"epsilon": None}


def value_and_gradient(loss, embeddings, *given, **named):
    embeddings = embeddings.clone().requires_grad_()
    value = loss(embeddings, *given, **named)
    return value.detach(), torch.autograd.grad(value, embeddings)[0]


def assert_equal_to_the_loops(loss, *batch, **references):
    found = value_and_gradient(loss, *batch, **references)
    wanted = value_and_gradient(reference.multi_similarity, *batch, **references, **EVERY)
    torch.testing.assert_close(found, wanted, rtol=1e-7, atol=1e-8)


@given(batches(12), st.sampled_from([1, 3000, 2**25]))
def test_every_pair_counts_as_in_the_loops(batch, scratch):
    assert_equal_to_the_loops(sm.MultiSimilarityLoss(**EVERY, scratch_bytes=scratch), *batch)


@given(with_references())
def test_every_pair_with_references_counts_as_in_the_loops(batch):
    embeddings, labels, references, reference_labels = batch
    named = {"references": references, "reference_labels": reference_labels}
    assert_equal_to_the_loops(sm.MultiSimilarityLoss(**EVERY), embeddings, labels, **named)


def test_rows_without_a_positive_or_a_negative_count_only_then():
    embeddings, labels = plain_batch()
    for lacking in (torch.zeros_like(labels), torch.arange(len(labels))):
        assert sm.MultiSimilarityLoss(epsilon=100.0)(embeddings, lacking) == 0
        assert sm.multi_similarity_loss(embeddings, lacking, **EVERY) > 0.01
    even = (sm.MultiSimilarityLoss(epsilon=100.0), sm.MultiSimilarityLoss(**EVERY))  # where each row has both
    torch.testing.assert_close(*(loss(embeddings, labels) for loss in even))


@pytest.mark.parametrize("epsilon", [float("nan"), "0.1", True])
def test_what_is_no_epsilon_is_refused(epsilon):
    with pytest.raises(Exception, match="epsilon"):
        sm.MultiSimilarityLoss(epsilon=epsilon)


def test_its_text_says_so():
    assert "epsilon=None" in repr(sm.MultiSimilarityLoss(**EVERY))
