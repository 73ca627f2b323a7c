"""The nearest of the own class and of the others equal the plain loops, in any block and any order."""

import pytest
import reference
import torch
from batches import batches, plain_batch
from hypothesis import given
from hypothesis import strategies as st

from shadowmetric.evaluation.open_set import nearest_cosines


@given(batches(), st.sampled_from([1, 2**25]))
def test_both_are_the_loop_s(batch, scratch):
    found, wanted = nearest_cosines(*batch, scratch_bytes=scratch), reference.nearest_cosines(*batch)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.tolist() == pytest.approx(theirs, abs=1e-6)


@given(batches(exact=True), st.integers(0, 10))
def test_neither_block_nor_order_of_rows_matters_to_the_last_bit(batch, seed):
    embeddings, labels = batch
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    found, moved = (
        nearest_cosines(embeddings, labels),
        nearest_cosines(embeddings[order], labels[order], scratch_bytes=1),
    )
    assert torch.equal(found.same[order], moved.same)
    assert torch.equal(found.other[order], moved.other)


def test_a_class_alone_has_no_other_and_a_row_alone_nothing_of_its_own():
    rows = torch.eye(3)
    assert nearest_cosines(rows, torch.zeros(3, dtype=torch.int64)).other.tolist() == [float("-inf")] * 3
    assert nearest_cosines(rows, torch.arange(3)).same.tolist() == [float("-inf")] * 3


def test_many_blocks_see_every_pair_and_say_how_far_they_are():
    embeddings, labels = plain_batch(rows=300)
    shares = []
    found = nearest_cosines(embeddings, labels, scratch_bytes=2**14, progress=shares.append)
    whole = nearest_cosines(embeddings, labels)
    assert torch.equal(found.same, whole.same)
    assert torch.equal(found.other, whole.other)
    assert len(shares) > 20
    assert shares[-1] == 1.0
