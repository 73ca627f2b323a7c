"""The hardest negatives of a whole set equal plain loops, whatever the block; the guard leaves out what it says."""

import pytest
import reference
import torch
from batches import batches, plain_batch
from hypothesis import given
from hypothesis import strategies as st
from relations import both

import shadowmetric as sm


def loops(embeddings, labels, count, guard):
    """For each row the nearest negatives by (distance, number), none nearer than the guard allows."""
    distances, found = reference.squared_distances(embeddings, True), []
    for a, (positives, negatives) in enumerate(reference.classes_around(embeddings, labels)):
        floor = guard * min(distances[a][p] for p in positives) if positives else 0.0
        ranked = sorted((distances[a][n], n) for n in negatives if distances[a][n] >= floor)[:count]
        found.append([n for _, n in ranked] + [-1] * (min(count, len(distances)) - len(ranked)))
    return found


@given(batches(), st.integers(1, 5), st.sampled_from([0.0, 0.5, 1.0, 1.5]), st.sampled_from([1, 4000, 2**22]))
def test_equals_the_loops(batch, count, guard, scratch):
    embeddings, labels = batch
    hardest = sm.hardest_negatives(embeddings, labels, count, guard=guard, scratch_bytes=scratch)
    assert hardest.row.tolist() == loops(embeddings, labels, count, guard)
    assert torch.equal(hardest.squared == float("inf"), hardest.row == -1)


def test_blocks_of_rows_and_columns_change_nothing():
    embeddings, labels = plain_batch(300, 6, dtype=torch.float32)
    small = sm.hardest_negatives(embeddings, labels, 4, guard=0.8, scratch_bytes=20_000)
    whole = sm.hardest_negatives(embeddings, labels, 4, guard=0.8)
    assert all(torch.equal(one, other) for one, other in zip(small, whole, strict=True))
    assert small.row.tolist() == loops(embeddings, labels, 4, 0.8)


def test_a_relation_says_what_is_negative():
    embeddings, (relation, plain) = plain_batch(20, 4)[0], both("sets_gap", 20, 4)
    hardest = sm.hardest_negatives(embeddings, relation, 3, guard=1.0, scratch_bytes=1)
    assert hardest.row.tolist() == loops(embeddings, plain, 3, 1.0)


def test_the_guard_leaves_out_a_twin_under_another_name():
    embeddings = torch.tensor([[1.0, 0.0], [0.8, 0.6], [1.0, 0.01], [0.0, 1.0]])
    labels = torch.tensor([0, 0, 1, 2])
    assert sm.hardest_negatives(embeddings, labels).row[0].tolist() == [2]
    assert sm.hardest_negatives(embeddings, labels, guard=0.5).row[0].tolist() == [3]
    told = []
    sm.hardest_negatives(embeddings, labels, guard=0.5, progress=told.append)
    assert told == [0.5, 1.0]


def test_what_makes_no_sense_is_refused():
    embeddings, labels = plain_batch(6)
    with pytest.raises(ValueError, match="count is 0; it must be a whole number above 0"):
        sm.hardest_negatives(embeddings, labels, 0)
    with pytest.raises(ValueError, match=r"guard is -1.0; it must be at least 0"):
        sm.hardest_negatives(embeddings, labels, guard=-1.0)
