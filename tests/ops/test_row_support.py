"""Support of rows that are alike, beside the product that it never makes."""

import pytest
import torch
from batches import plain_batch

from shadowmetric.ops.row_support import row_support


@pytest.mark.parametrize("scratch_bytes", [1, 5000, 2**25])
def test_it_is_the_product_and_so_is_its_gradient(scratch_bytes):
    rows, values = plain_batch(rows=23)[0], plain_batch(rows=23, dim=5, seed=1)[0]
    leaves = [tensor.clone().requires_grad_() for tensor in (rows, values)]
    unit = torch.nn.functional.normalize(leaves[0])
    plain = (unit @ unit.T).relu() @ leaves[1]
    found = row_support(*leaves, scratch_bytes)
    torch.testing.assert_close(found, plain)
    weight = torch.randn(plain.shape, generator=torch.Generator().manual_seed(2), dtype=plain.dtype)
    gradients = (torch.autograd.grad(out, leaves, weight) for out in (found, plain))
    torch.testing.assert_close(*gradients)
