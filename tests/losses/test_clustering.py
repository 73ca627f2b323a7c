"""The clustering loss: what its greedy choice is bounded to, and where it is zero."""

import pytest
import torch
from batches import plain_batch

import shadowmetric as sm
from shadowmetric.mining.medoids import medoids_of
from shadowmetric.ops.grid_rows import GridRows


def chosen(rows, labels, candidates, scratch_bytes=2**20):
    grid = GridRows(rows, normalize=True, finer=True)
    everyone = torch.ones(len(labels), dtype=torch.bool)
    given = (grid, grid), (labels, labels), (everyone, everyone)
    return medoids_of(*given, gamma=1.0, candidates=candidates, scratch_bytes=scratch_bytes)


def test_classes_that_lie_apart_cost_nothing():
    rows = torch.eye(4, dtype=torch.float64).repeat_interleave(5, 0) + 0.01 * plain_batch(rows=20, dim=4)[0]
    labels = torch.arange(20) // 5
    assert sm.ClusteringLoss(gamma=0.01)(rows, labels) == 0
    assert sm.ClusteringLoss(gamma=10.0)(rows, labels) > 0  # so large a margin is worth a wrong clustering


@pytest.mark.parametrize("candidates", [1, 3, 30])
def test_there_are_as_many_medoids_as_classes(candidates):
    rows, labels = plain_batch(rows=30, per_class=5)
    medoids = chosen(rows, labels, candidates)
    assert len(medoids.nearest.unique()) <= len(labels.unique())
    assert (labels[medoids.oracle] == labels).all()
    assert 0 <= medoids.nmi <= 1


@pytest.mark.parametrize("scratch_bytes", [1, 20_000])
def test_blocks_choose_the_same(scratch_bytes):
    rows, labels = plain_batch(rows=30, per_class=5)
    for part, other in zip(chosen(rows, labels, 7), chosen(rows, labels, 7, scratch_bytes), strict=True):
        assert torch.equal(part, other)


def test_parts_of_a_batch_add_up_to_the_whole():
    rows, labels = plain_batch(rows=30, per_class=5)
    loss = sm.ClusteringLoss()
    total = torch.zeros(())
    for part in (slice(0, 9), slice(9, 30)):
        given = {"references": rows, "reference_labels": labels, "anchors_at": part.start or 0}
        total = total + loss.sums(rows[part], labels[part], **given).totals
    torch.testing.assert_close(total[0] / 30, loss(rows, labels))


def test_rows_whose_class_no_reference_has_are_left_out():
    rows, labels = plain_batch(rows=20, per_class=5)
    known = labels < 2
    against = {"references": rows[known].flip(0), "reference_labels": labels[known].flip(0)}
    loss = sm.ClusteringLoss()
    torch.testing.assert_close(loss(rows, labels, **against), loss(rows[known], labels[known], **against))


def test_candidates_that_make_no_sense():
    with pytest.raises(ValueError, match="candidates is 0; it must be at least 1, or None"):
        sm.ClusteringLoss(candidates=0)
