"""The rows of the bench against formulas that were written without them."""

import pytest
import torch
from torch import nn

from benchmarks.losses.contenders import CONTENDERS, MARGIN, bare_product, literal_loss


def test_algorithm_1_on_unit_rows_is_half_the_squared_triplet_loss_at_twice_the_margin():
    generator = torch.Generator().manual_seed(1)
    anchor, positive, negative = nn.functional.normalize(torch.randn(3, 20, 6, generator=generator), dim=2)
    closer, farther = (anchor - positive).pow(2).sum(1), (anchor - negative).pow(2).sum(1)
    expected = torch.relu(closer - farther + 2 * MARGIN).mean() / 2
    torch.testing.assert_close(literal_loss(anchor, positive, negative), expected)


def test_the_bare_product_covers_every_row(monkeypatch):
    covered = []
    monkeypatch.setattr(torch, "mm", lambda block, other, out: covered.append(tuple(out.shape)))
    bare_product(torch.randn(600, 4), torch.zeros(600, dtype=torch.int64))()
    assert covered == [(256, 600), (256, 600), (88, 600)]


@pytest.mark.parametrize("name", ["ours", "algorithm-1"])
def test_a_loss_reaches_every_row_it_can(name):
    generator = torch.Generator().manual_seed(2)
    embeddings = torch.randn(20, 8, generator=generator).requires_grad_()
    value = CONTENDERS[name](embeddings, torch.arange(20) // 5)()
    assert value is not None
    value.backward()
    assert embeddings.grad is not None
    assert 0 < value < MARGIN
    assert embeddings.grad.abs().sum() > 0


def test_ours_and_algorithm_1_are_the_same_number():
    generator = torch.Generator().manual_seed(3)
    embeddings, labels = torch.randn(40, 8, generator=generator), torch.arange(40) // 5
    ours, printed = (CONTENDERS[name](embeddings, labels)() for name in ("ours", "algorithm-1"))
    torch.testing.assert_close(ours, printed)
