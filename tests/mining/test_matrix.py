"""Mining in a matrix and in class order choose the same triplets, for every setting; distances are the same too."""

import numpy as np
import pytest
import torch
from batches import batches, with_references
from hypothesis import given
from hypothesis import strategies as st
from made_rows import KINDS, made_rows

import shadowmetric as sm
from shadowmetric.mining.checked_batch import as_checked_batch
from shadowmetric.mining.matrix import MatrixSearch
from shadowmetric.ops.runs import NEVER

MINERS = {
    "semi_hard": sm.SemiHardMiner(0.5),
    "no upper end": sm.SemiHardMiner(float("inf")),
    "distance": sm.SemiHardMiner(0.3, unit="distance"),
    "angle": sm.SemiHardMiner(0.3, unit="angle"),
    "fallback": sm.SemiHardMiner(0.1, fallback="farthest"),
    "nearest positive": sm.SemiHardMiner(0.5, positives="nearest"),
    "farthest positive": sm.SemiHardMiner(0.5, positives="farthest", fallback="farthest"),
    "free rows": sm.SemiHardMiner(0.5, normalize=False),
    "gaps of free rows": sm.SemiHardMiner(0.5, unit="gap", normalize=False),
    "gaps, fallback": sm.SemiHardMiner(0.1, unit="gap", normalize=False, fallback="farthest"),
    "hard": sm.HardMiner(),
    "hard gaps": sm.HardMiner(unit="gap", normalize=False),
    "batch_hard": sm.BatchHardMiner(),
    "batch_hard, free rows": sm.BatchHardMiner(normalize=False),
}
TYPES = st.sampled_from([torch.float32, torch.float64, torch.bfloat16])
ANY_BATCH = st.one_of(batches(), with_references())


def listed(mined) -> list[tuple[int, ...]]:
    return [tuple(row) for row in torch.stack(mined.triplets, 1).tolist()]


def in_matrix(miner, batch, **settings):
    return miner.mine_in_matrix(MatrixSearch(batch, miner.comparison, **settings)).to_mined()


@pytest.mark.parametrize("name", MINERS)
@given(ANY_BATCH, TYPES)
def test_a_matrix_gives_what_class_order_gives(name, batch, dtype):
    checked = as_checked_batch(*(tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in batch))
    mined, expected = in_matrix(MINERS[name], checked), MINERS[name].mine_by_class(checked)
    assert listed(mined) == listed(expected)
    if expected.squared is not None and mined.squared is not None:
        assert all(torch.equal(one, other) for one, other in zip(mined.squared, expected.squared, strict=True))


@given(ANY_BATCH, st.integers(0, 2**20), st.sampled_from(["every", "farthest"]))
def test_a_seed_draws_the_same_negatives(batch, seed, positives):
    def miner():
        return sm.SemiHardMiner(1.0, "random", positives=positives, generator=torch.Generator().manual_seed(seed))

    checked = as_checked_batch(*batch)
    assert listed(in_matrix(miner(), checked)) == listed(miner().mine_by_class(checked))


@pytest.mark.parametrize("miner", [sm.SemiHardMiner(0.5), sm.SemiHardMiner(2.0, "random")], ids=["nearest", "random"])
def test_pairs_are_looked_up_a_few_at_once_where_the_scratch_is_small(miner):
    generator = torch.Generator().manual_seed(0)
    checked = as_checked_batch(torch.randn(40, 8, generator=generator), torch.arange(40) // 5)
    found = []
    for scratch_bytes in (1, 2**25):
        torch.manual_seed(3)
        found.append(listed(in_matrix(miner, checked, scratch_bytes=scratch_bytes)))
    assert found[0] == found[1]
    assert len(found[0]) > 100


@pytest.mark.parametrize("kind", KINDS)
def test_distances_are_those_of_the_grid(kind):
    rows = torch.from_numpy(made_rows(kind, 20, 6, 0)).float()
    references = rows.flip(0)[:7] * 3
    batch = as_checked_batch(rows, torch.arange(20) % 4, references, torch.arange(7) % 4)
    own = as_checked_batch(rows, torch.arange(20) % 4)
    for checked in (batch, own):
        left, right = checked.grids(normalize=True)
        row, other = torch.cartesian_prod(torch.arange(len(left)), torch.arange(len(right))).unbind(1)
        dots = (left.first.double()[row] * right.first.double()[other]).sum(1)
        expected = left.square[row] + right.square[other] - 2 * dots
        matrix = checked.unit_matrix()
        assert np.array_equal(matrix.squared.reshape(-1), expected.numpy())
        assert np.array_equal(matrix.length, left.length.numpy())
        assert np.array_equal(matrix.other_length, right.length.numpy())


def test_the_nearest_beyond_is_found_among_neighboring_numbers():
    batch = as_checked_batch(torch.randn(2, 3), torch.tensor([0, 0]))
    search = MatrixSearch(batch, sm.HardMiner().comparison)
    near = np.nextafter(0.5, 1)
    cases = {0.5: 1, 0.0: 2, near: 3, 0.75: 3, 3.0: None, np.nextafter(0.0, 1): 2}
    search.negatives = np.array([[0.5, near, 5e-324 * 2, 1.0, 0.0, NEVER]])
    for floor, column in cases.items():
        pairs = search.pairs()._replace(anchor=np.zeros(1, int), closer=np.array([floor]))
        distance, found = search.nearest_beyond(pairs)
        assert (found[0] if distance[0] < NEVER else None) == column


def test_too_few_slots_are_refused():
    batch = as_checked_batch(torch.randn(8, 4), torch.arange(8) // 4)
    with pytest.raises(ValueError, match="slots is 2, and a row of this batch has 3 positives; give at least as many"):
        MatrixSearch(batch, sm.HardMiner().comparison, 2)
    MatrixSearch(batch, sm.HardMiner().comparison, 3)
