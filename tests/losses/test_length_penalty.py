"""A price on length: the loss it is added to, the mean of squared lengths, and parts of a batch that add up."""

import pytest
import torch

from shadowmetric.losses import ShadowLoss
from shadowmetric.losses.length_penalty import LengthPenalty
from shadowmetric.losses.sums import Sums


def batch():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(12, 5, dtype=torch.float64, generator=generator).requires_grad_(), torch.arange(12) // 3


@pytest.mark.parametrize("normalize", [True, False])
def test_it_adds_the_mean_squared_length(normalize):
    rows, labels = batch()
    inner = ShadowLoss(0.5, miner="hard", normalize=normalize)
    found = LengthPenalty(inner, 0.25)(rows, labels)
    wanted = inner(rows, labels) + 0.25 * rows.square().sum(1).mean()
    torch.testing.assert_close(found, wanted)
    (mine,), (theirs,) = (torch.autograd.grad(value, rows, retain_graph=True) for value in (found, wanted))
    torch.testing.assert_close(mine, theirs)


def test_parts_of_a_batch_add_up():
    rows, labels = batch()
    loss = LengthPenalty(ShadowLoss(0.5, miner="hard"), 0.25)
    parts = [
        loss.sums(rows[some], labels[some], references=rows, reference_labels=labels, anchors_at=some.start)
        for some in (slice(0, 7), slice(7, 12))
    ]
    whole = Sums(sum(part.totals for part in parts), sum(part.counts for part in parts)).value()
    torch.testing.assert_close(whole, loss(rows, labels))


def test_on_unit_rows_the_gradient_of_a_direction_is_the_losss_own():
    rows, labels = batch()
    unit = torch.nn.functional.normalize(rows)
    inner = ShadowLoss(0.5, miner="hard")
    first, second = (
        torch.autograd.grad(loss(unit, labels), rows, retain_graph=True)[0]
        for loss in (inner, LengthPenalty(inner, 9.0))
    )
    torch.testing.assert_close(first, second)


def test_it_has_the_miner_of_its_loss_and_a_cost():
    inner = ShadowLoss()
    loss = LengthPenalty(inner, 1e-3)
    assert loss.miner is inner.miner
    assert len(loss.memory().phases) == len(inner.memory().phases)
    assert "0.001" in repr(loss)
    with pytest.raises(ValueError, match="-1"):
        LengthPenalty(inner, -1.0)
