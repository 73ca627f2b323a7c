"""Cosines of exact rows are the same bits in any block and any place."""

import pytest
import torch
from batches import plain_batch

from shadowmetric.ops.exact_rows import GRID, ExactUnitRows
from shadowmetric.ops.similarity_blocks import similarity_blocks


def product(rows, others, scratch=2**26):
    out = torch.empty(len(rows), len(others), dtype=torch.float64)
    for top, bottom, first, last, values in similarity_blocks(rows, others, scratch_bytes=scratch):
        out[top:bottom, first:last] = values
    return out


@pytest.mark.parametrize("dim", [1, 64, 600, 2048])
def test_products_are_exact(dim):
    source, _ = plain_batch(40, dim=dim, dtype=torch.float32)
    rows = ExactUnitRows(source).load(0, 40).clone()
    whole = (rows * GRID).long()
    assert torch.equal(whole.double() / GRID, rows)  # multiples of 2^-24
    exact = [[sum(a * b for a, b in zip(x, y, strict=True)) for y in whole.tolist()[:8]] for x in whole.tolist()[:8]]
    found = product(ExactUnitRows(source), ExactUnitRows(source))
    assert (found[:8, :8] * GRID**2).long().tolist() == exact
    for scratch in (1, 3000, 40_000):
        assert torch.equal(product(ExactUnitRows(source), ExactUnitRows(source), scratch), found)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    assert torch.equal(product(ExactUnitRows(source, order), ExactUnitRows(source)), found[order])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_cosines_are_right_to_2e_7(dtype):
    source, _ = plain_batch(50, dim=128, dtype=dtype)
    source[3] = 0
    unit = torch.nn.functional.normalize(source.double())
    found = product(ExactUnitRows(source), ExactUnitRows(source))
    torch.testing.assert_close(found, unit @ unit.T, rtol=0, atol=2e-7)
    assert (found[3] == 0).all()


def test_whole_rows_are_the_same_rows_in_float64_or_float32_as_they_fit():
    source, _ = plain_batch(50, dim=16, dtype=torch.float16)
    order = torch.arange(50).flip(0)
    lazy = ExactUnitRows(source, order)
    expected = lazy.load(0, 50).clone()
    for most, kept in ((50 * 16 * 8, torch.float64), (50 * 16 * 4, torch.float32)):
        whole = lazy.make_whole(most)
        assert whole.source.dtype == kept
        assert torch.equal(whole.load(0, 50), expected)
    assert lazy.make_whole(50 * 16 * 4 - 1) is lazy
