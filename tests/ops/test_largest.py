"""The largest entries of rows, by value and by place, equal a full stable sort."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shadowmetric.ops import largest
from shadowmetric.ops.largest import FEW, GROUP, count_at_least, largest_places, largest_values
from shadowmetric.ops.rows import Rows
from shadowmetric.ops.top_k import top_k

WIDE = FEW * GROUP * 3 + 17  # wide enough for groups at k = 3, with a remainder


def entries(rows, width, tied, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if tied:
        return torch.randint(-3, 4, (rows, width), generator=generator).double()
    return torch.randn(rows, width, generator=generator)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("width", [1, 5, 64, WIDE])
@pytest.mark.parametrize("k", [1, 3, 4, 100, 2000])
def test_equal_to_a_stable_sort(k, width, tied):
    values = entries(7, width, tied)
    values[2] = float("-inf")
    values[3, : width // 2] = float("-inf")
    sorted_values, places = values.sort(dim=1, descending=True, stable=True)
    assert torch.equal(largest_places(values.clone(), k), places[:, :k].sort(dim=1).values)
    assert torch.equal(largest_values(values.clone(), k), sorted_values[:, :k].flip(1))


@pytest.mark.parametrize("rows", [1, 7])
def test_threads_share_the_rows(rows, monkeypatch):
    monkeypatch.setattr(largest, "LARGE", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    values = entries(rows, 50, tied=False)
    assert torch.equal(largest_values(values.clone(), 20), values.sort(dim=1).values[:, -20:])


def test_largest_values_of_a_view_touch_nothing_around_it():
    buffer = entries(6, 40, tied=False)
    before = buffer.clone()
    largest_values(buffer[:5, 3:33], 10)
    assert torch.equal(buffer[5], before[5])
    assert torch.equal(buffer[:, :3], before[:, :3])
    assert torch.equal(buffer[:, 33:], before[:, 33:])


@given(st.integers(1, 9), st.integers(1, 300), st.integers(0, 99))
def test_count_at_least(rows, width, seed):
    values = entries(rows, width, tied=True, seed=seed)
    least = values[:, 0]
    assert torch.equal(count_at_least(values, least), (values >= least[:, None]).sum(1))


@pytest.mark.parametrize("scratch", [1, 2**16, 2**25])
def test_top_k_leaves_out_what_it_is_told_to(scratch):
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(-2, 3, (30, 3), generator=generator).float()
    own = torch.arange(30)
    own[4] = -1
    similarity = rows @ rows.T
    similarity[own >= 0, own[own >= 0]] = float("-inf")
    wanted = similarity.sort(dim=1, descending=True, stable=True)
    found = top_k(Rows(rows), Rows(rows), 7, own=own, scratch_bytes=scratch)
    assert torch.equal(found.row, wanted.indices[:, :7])
    assert torch.equal(found.similarity, wanted.values[:, :7])
