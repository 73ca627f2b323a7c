"""The plain dense program beside our losses, which choose the same triplets."""

import pytest
import torch

import shadowmetric as sm
from shadowmetric.app.doctor.devices.dense import CHOICES, dense_loss

LOSSES = {"shadow": sm.ShadowLoss, "triplet": sm.TripletLoss}


@pytest.mark.parametrize("miner", CHOICES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("labels", [torch.arange(40) % 8, torch.arange(40).clamp_max(30) // 5], ids=["equal", "uneven"])
def test_value_and_gradient_are_those_of_our_loss(loss, miner, labels):
    rows = torch.randn(40, 8, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    ours, theirs = (rows.clone().requires_grad_() for _ in range(2))
    expected = LOSSES[loss](0.3, miner=miner)(ours, labels)
    value = dense_loss(theirs, labels, loss=loss, miner=miner, margin=0.3)
    assert value > 0
    torch.testing.assert_close(value, expected)
    for one in (expected, value):
        one.backward()
    torch.testing.assert_close(theirs.grad, ours.grad)


@pytest.mark.parametrize("miner", CHOICES)
def test_a_batch_without_triplets_is_zero_with_a_gradient(miner):
    rows = torch.randn(6, 4, generator=torch.Generator().manual_seed(4)).requires_grad_()
    value = dense_loss(rows, torch.zeros(6, dtype=torch.int64), loss="shadow", miner=miner, margin=0.2)
    value.backward()
    assert value == 0
    assert torch.equal(rows.grad, torch.zeros(6, 4))
