"""Two embedders in one space: what the loss is made of, who gets a gradient, and what is refused."""

import pytest
import torch
from every_loss import CLASSES, LOSSES
from torch import nn

import shadowmetric as sm


def rows_of(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    return torch.randn(count, 5, dtype=torch.float64, requires_grad=True), torch.arange(count) % CLASSES


@pytest.mark.parametrize("name", LOSSES)
def test_it_is_the_mean_of_both_directions_with_a_gradient_to_both_towers(name):
    loss = LOSSES[name](5).double()
    (anchors, labels), (others, other_labels) = rows_of(13, 1), rows_of(17, 2)
    forth = loss(anchors, labels, references=others, reference_labels=other_labels)
    back = loss(others, other_labels, references=anchors, reference_labels=labels)
    wanted = torch.autograd.grad((forth + back) / 2, [anchors, others])
    value = sm.TwoTowerLoss(loss)(anchors, others, labels, other_labels)
    torch.testing.assert_close(value, (forth + back) / 2)
    for one, other in zip(torch.autograd.grad(value, [anchors, others]), wanted, strict=True):
        torch.testing.assert_close(one, other)
        assert other.abs().max() > 0
    one_way = sm.TwoTowerLoss(loss, both_ways=False)(anchors, others, labels, other_labels)
    torch.testing.assert_close(one_way, forth)


@pytest.mark.parametrize("miner", ["semi_hard", "hard", "batch_hard", "all"])
def test_towers_that_agree_keep_their_pairs(miner):
    """An equal row elsewhere is the positive, not the anchor itself; with equal rows in a batch there is none."""
    rows = torch.eye(6, dtype=torch.float64)
    labels, loss = torch.arange(6), sm.TripletLoss(3.0, miner=miner)
    assert float(loss(rows, labels, references=rows.clone(), reference_labels=labels)) == 0
    assert float(sm.TwoTowerLoss(loss)(rows, rows.clone(), labels)) == pytest.approx(1.0)  # 0 - 2 + 3


def test_cached_towers_get_the_gradients_of_plain_ones():
    torch.manual_seed(3)
    images, words = torch.randn(40, 9, dtype=torch.float64), torch.randn(40, 4, dtype=torch.float64)
    towers = nn.Linear(9, 5).double(), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 5)).double()
    two, labels = sm.TwoTowerLoss(sm.ShadowLoss(0.2)), torch.arange(40)
    parameters = [parameter for tower in towers for parameter in tower.parameters()]
    wanted = torch.autograd.grad(two(towers[0](images), towers[1](words), labels), parameters)
    rows = [sm.cached_rows(tower, given, 7) for tower, given in zip(towers, (images, words), strict=True)]
    found = torch.autograd.grad(two(*rows, labels), parameters)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


def test_what_makes_no_sense_is_refused_in_a_sentence():
    rows, labels = rows_of(6, 1)
    with pytest.raises(ValueError, match="there are 4 rows of the other tower and 6 labels; give other_labels"):
        sm.TwoTowerLoss(sm.ShadowLoss())(rows, rows[:4], labels)
    for wrong in (nn.MSELoss(), sm.CrossBatchMemory(sm.ShadowLoss(), 8)):
        with pytest.raises(ValueError, match=r"can't compare two towers; give a loss such as ShadowLoss\(0.2\)"):
            sm.TwoTowerLoss(wrong)
    with pytest.raises(ValueError, match=r"anchors_at is -2; .* or 'elsewhere' if none of them is among these"):
        sm.ShadowLoss()(rows, labels, references=rows, reference_labels=labels, anchors_at=-2)
