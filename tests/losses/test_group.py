"""The group loss where it plays with more than a batch, and what it refuses."""

import pytest
import torch
from batches import plain_batch
from every_loss import CLASSES

import shadowmetric as sm


def game(**settings):
    torch.manual_seed(0)
    embeddings, labels = plain_batch(rows=24, per_class=4)
    return sm.GroupLoss(CLASSES, embeddings.shape[1], **settings).double(), embeddings, labels % CLASSES


def test_references_are_further_players():
    loss, rows, labels = game(iterations=2)
    apart = loss(rows[:10], labels[:10], references=rows[10:], reference_labels=labels[10:])
    torch.testing.assert_close(apart, loss(rows, labels))


def test_parts_of_a_batch_add_up_to_the_game():
    loss, rows, labels = game(iterations=2)
    total = count = torch.zeros(())
    for part in (slice(0, 5), slice(5, 24)):
        sums = loss.sums(rows[part], labels[part], references=rows, reference_labels=labels, anchors_at=part.start or 0)
        total, count = total + sums.totals, count + sums.counts
    torch.testing.assert_close((total / count)[0], loss(rows, labels))


def test_more_classes_than_rows_are_those_of_the_batch():
    loss, rows, labels = game()
    wide = sm.GroupLoss(1000, rows.shape[1]).double()
    wide.centers.data[torch.arange(CLASSES) * 100] = loss.centers.data
    torch.testing.assert_close(wide(rows, labels * 100), loss(rows, labels))


def test_a_row_of_equal_numbers_correlates_with_none_and_stays():
    loss, rows, labels = game(anchors=0, iterations=4)
    rows[3] = 0.7
    value = loss(rows.requires_grad_(), labels)
    value.backward()
    assert torch.isfinite(value)
    assert rows.grad is not None
    assert torch.isfinite(rows.grad).all()


@pytest.mark.parametrize("settings", [{"iterations": 0}, {"anchors": -1}, {"anchors": True}, {"temperature": 0.0}])
def test_settings_that_make_no_sense(settings):
    with pytest.raises(ValueError, match=r"it must be a (whole number of at least|number above)"):
        sm.GroupLoss(3, 4, **settings)
