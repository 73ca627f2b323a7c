"""Losses over whole rows and over centers under autocast: the products of forward and backward stay what they are."""

import pytest
import torch
from compiled_rows import ALL, batch


@pytest.mark.parametrize("name", ALL)
def test_autocast_changes_neither_value_nor_gradient(name):
    loss = ALL[name]()
    rows, labels = batch()
    answers = []
    for enabled in (False, True):
        embeddings = rows.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            value = loss(embeddings, labels)
            slopes = torch.autograd.grad(value, [embeddings, *loss.parameters()])  # backward inside of it too
        answers.append((value.detach(), slopes))
    torch.testing.assert_close(*answers, rtol=0, atol=0)
