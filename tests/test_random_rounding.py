"""The product that rounds at random moves what rounding can move, and nothing else."""

import numpy as np
import pytest
import torch
from random_rounding import grid_of, random_rounding


def rows(count, dim, dtype=torch.float32, seed=0):
    found = torch.randn(count, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return (found / found.norm(dim=1, keepdim=True)).to(dtype)


def on_grid(found, step=2.0**-24):
    return (found.double() / step).round() * step


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_every_product_moves_by_a_few_ulps(dtype):
    left, right = rows(40, 16, dtype), rows(30, 16, dtype, seed=1)
    square = left.T.contiguous()
    ways = [
        lambda: left @ right.T,
        lambda: torch.mm(left, right.T, out=left.new_empty(40, 30)),
        lambda: left.new_ones(40, 30).addmm_(left, right.T, beta=0.5, alpha=2.0),
        lambda: torch.addmm(left.new_ones(30), left, right.T),
        lambda: torch.nn.functional.linear(left, right),
        lambda: torch.einsum("ij,kj->ik", left, right),
        lambda: torch.bmm(left[None], square[None]),
        lambda: torch.baddbmm(left.new_ones(1, 40, 40), left[None], square[None]),
        lambda: left @ right[0],
        lambda: torch.addmv(left.new_ones(40), left, right[0]),
        lambda: (left @ right.T) + 0 * torch.dot(left[0], right[0]),
    ]
    for way in ways:
        plain = way()
        with random_rounding(0, ulps=3) as rounding:
            moved = way()
            again = way()
        assert rounding.calls >= 2
        assert rounding.entries > plain.numel()  # of twice as many
        assert moved.dtype == dtype
        assert not torch.equal(moved, again)
        bound = 3 * torch.finfo(dtype).eps * 5 + torch.finfo(dtype).eps * 5
        assert (moved.double() - plain.double()).abs().max() <= bound


def test_the_same_seed_moves_the_same_way():
    left = rows(20, 8)
    found = []
    for seed in (3, 3, 4):
        with random_rounding(seed):
            found.append(left @ left.T)
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_equal_rows_are_moved_differently():
    left = rows(1, 8).expand(50, 8).contiguous()
    with random_rounding(0):
        assert len(torch.unique(left @ left.T)) > 2


def test_products_that_are_exact_in_any_order_stay():
    left, right = on_grid(rows(40, 64)), on_grid(rows(30, 64, seed=1))
    with random_rounding(0) as rounding:
        assert torch.equal(left @ right.T, (left.flip(1) @ right.flip(1).T))
    assert (rounding.calls, rounding.entries, rounding.exact) == (2, 0, 2 * 40 * 30)


def test_a_grid_too_fine_is_moved():
    left, right = on_grid(rows(40, 64), 2.0**-28), on_grid(rows(30, 64, seed=1), 2.0**-28)
    with random_rounding(0) as rounding:
        left @ right.T
    assert rounding.exact == 0
    assert rounding.entries > 800


def test_a_grid_for_each_row_and_terms_of_other_grids_are_seen():
    scales = torch.tensor([2.0**-300, 1.0, 2.0**200], dtype=torch.float64)
    left, right = on_grid(rows(3, 64)) * scales[:, None], on_grid(rows(30, 64, seed=1))
    tail = rows(30, 1, torch.float64, seed=2) * 0.3
    tail = on_grid(tail, 2.0**-48)
    beside = torch.cat([left[1:2], torch.ones(1, 1, dtype=torch.float64)], 1), torch.cat([right, tail], 1)
    with random_rounding(0) as rounding:
        left @ right.T
        beside[0] @ beside[1].T
        torch.addmm(tail.T.contiguous(), left[1:2], right.T)
    assert rounding.entries == 0
    with random_rounding(0) as rounding:
        torch.addmm(tail.T.contiguous() * 0.3, left[1:2], right.T)
    assert rounding.entries > 20


def test_one_entry_may_be_exact_beside_one_that_is_not():
    left = torch.stack([on_grid(rows(1, 64))[0], rows(1, 64, torch.float64, seed=5)[0]])
    with random_rounding(0) as rounding:
        found = left @ on_grid(rows(200, 64, seed=1)).T
    assert rounding.exact == 200
    assert rounding.entries > 150
    assert torch.equal(found[0], left[0] @ on_grid(rows(200, 64, seed=1)).T)


def test_zeros_integers_and_infinities_stay():
    zero = torch.zeros(4, 8)
    with random_rounding(0) as rounding:
        assert not (zero @ rows(5, 8).T).any()
        assert (torch.ones(2, 2, dtype=torch.int64) @ torch.ones(2, 2, dtype=torch.int64)).eq(2).all()
        assert (torch.full((2, 2), torch.inf) @ torch.ones(2, 2)).isinf().all()
    assert rounding.entries == 0


def test_inference_mode_and_gradients_are_reached():
    left = rows(20, 8).requires_grad_()
    with random_rounding(0) as rounding:
        with torch.inference_mode():
            torch.matmul(rows(20, 8), rows(20, 8, seed=1).T)
        assert rounding.calls == 1
        (left @ rows(20, 8, seed=1).T).sum().backward()
    assert rounding.calls == 3


def test_numpy_has_a_product_of_its_own():
    left = rows(20, 8).numpy()
    rounding = random_rounding(0)
    found = rounding.product(left, left.T)
    assert found.dtype == np.float32
    assert rounding.entries > 200
    assert np.abs(found - left @ left.T).max() < 1e-6


def test_the_grid_of_numbers():
    numbers = torch.tensor([1.0, 3.0, 0.5, 6.0, -0.375, 2.0**-1074, 2.0**-1060 * 3, 0.0], dtype=torch.float64)
    assert grid_of(numbers).tolist() == [0, 0, -1, 1, -3, -1074, -1060, 2**20]
