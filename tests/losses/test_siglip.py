"""SigLIP's scale and bias learn what a dense program's would, with one tower and with two."""

import pytest
import torch
from batches import plain_batch
from torch.nn.functional import logsigmoid, normalize

import shadowmetric as sm


def dense(embeddings, others, signs, loss):
    """The paper's program, with the whole matrix."""
    logits = loss.scale * loss.log_growth.exp() * (normalize(embeddings) @ normalize(others).T) + loss.bias + loss.shift
    return -(logsigmoid(signs * logits) * (signs != 0)).sum() / len(embeddings)


def moved() -> sm.SigLIPLoss:
    """Return a loss that has learned something."""
    loss = sm.SigLIPLoss(scale=4.0, bias=-2.0).double()
    loss.log_growth.data += 0.3
    loss.shift.data -= 0.5
    return loss


@pytest.mark.parametrize("scratch", [1, 2**25])
def test_one_tower_is_the_dense_program_with_its_slopes(scratch):
    embeddings, labels = plain_batch(rows=20, per_class=4)
    loss = moved()
    loss.scratch_bytes = scratch
    signs = torch.where(labels[:, None] == labels, 1.0, -1.0).fill_diagonal_(0.0)
    leaves = [embeddings.requires_grad_(), loss.log_growth, loss.shift]
    value, wanted = loss(embeddings, labels), dense(embeddings, embeddings, signs, loss)
    torch.testing.assert_close(value, wanted)
    found = torch.autograd.grad(value, leaves)
    for one, other in zip(found, torch.autograd.grad(wanted, leaves), strict=True):
        torch.testing.assert_close(one, other)
        assert other.abs().max() > 0


def test_two_towers_are_the_paper_s_program():
    embeddings = plain_batch(rows=12)[0]
    others, loss = plain_batch(rows=12, seed=1)[0], moved()
    signs = 2 * torch.eye(12, dtype=torch.float64) - 1
    leaves = [embeddings.requires_grad_(), others.requires_grad_(), loss.log_growth, loss.shift]
    value, wanted = sm.TwoTowerLoss(loss)(embeddings, others, torch.arange(12)), dense(embeddings, others, signs, loss)
    torch.testing.assert_close(value, wanted)
    for one, other in zip(torch.autograd.grad(value, leaves), torch.autograd.grad(wanted, leaves), strict=True):
        torch.testing.assert_close(one, other)


def test_scale_and_bias_go_to_the_optimizer_with_their_own_rate():
    loss = sm.SigLIPLoss(learning_rate=0.5)
    (group,) = loss.parameter_groups()
    assert group["lr"] == 0.5
    assert group["params"] == [loss.log_growth, loss.shift]
    assert sm.SigLIPLoss(learned=False).parameter_groups() == []
    assert list(sm.SigLIPLoss(learned=False).parameters()) == []
    assert "now 4 and -2" in repr(sm.SigLIPLoss(scale=4.0, bias=-2.0))
