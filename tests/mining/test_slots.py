"""Mining in slots and in class order choose the same triplets, for every setting."""

import math

import pytest
import torch
from batches import batches, with_references
from hypothesis import given
from hypothesis import strategies as st

import shadowmetric as sm
from shadowmetric.app.doctor.devices.pretended_device import count_step
from shadowmetric.mining.checked_batch import as_checked_batch
from shadowmetric.mining.slots import arrange_slots, list_triplets

MINERS = {
    "semi_hard": sm.SemiHardMiner(0.5),
    "no upper end": sm.SemiHardMiner(math.inf),
    "distance": sm.SemiHardMiner(0.3, unit="distance"),
    "fallback": sm.SemiHardMiner(0.1, fallback="farthest"),
    "nearest positive": sm.SemiHardMiner(0.5, positives="nearest"),
    "farthest positive": sm.SemiHardMiner(0.5, positives="farthest", fallback="farthest"),
    "angle": sm.SemiHardMiner(0.3, unit="angle"),
    "free rows": sm.SemiHardMiner(0.5, normalize=False),
    "gaps of free rows": sm.SemiHardMiner(0.5, unit="gap", normalize=False),
    "gaps, fallback": sm.SemiHardMiner(0.1, unit="gap", normalize=False, fallback="farthest"),
    "gaps, farthest positive": sm.SemiHardMiner(1.0, unit="gap", normalize=False, positives="farthest"),
    "hard": sm.HardMiner(),
    "hard, free rows": sm.HardMiner(normalize=False),
    "hard gaps": sm.HardMiner(unit="gap", normalize=False),
    "batch_hard": sm.BatchHardMiner(),
    "batch_hard gaps": sm.BatchHardMiner(unit="gap", normalize=False),
}


def listed(mined) -> list[tuple[int, ...]]:
    return [tuple(row) for row in torch.stack(mined.triplets, 1).tolist()]


def mine_both_ways(miner, batch, width=None):
    checked = as_checked_batch(*batch)
    arranged = arrange_slots(checked, width)
    return list_triplets(miner.mine_in_slots(checked, arranged)), miner.mine_by_class(checked)


@pytest.mark.parametrize("name", MINERS)
@given(st.one_of(batches(), with_references()), st.sampled_from([torch.float32, torch.float64, torch.bfloat16]))
def test_slots_choose_what_class_order_chooses(name, batch, dtype):
    batch = [tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in batch]
    in_slots, by_class = mine_both_ways(MINERS[name], batch)
    assert listed(in_slots) == listed(by_class)


@given(batches(), st.integers(0, 5))
def test_more_slots_than_needed_change_nothing(batch, more):
    most = max(1, int(torch.bincount(torch.unique(batch[1], return_inverse=True)[1]).max()) - 1)
    in_slots, by_class = mine_both_ways(sm.SemiHardMiner(0.5), batch, most + more)
    assert listed(in_slots) == listed(by_class)
    value = sm.ShadowLoss(slots=most + more)(*batch)
    torch.testing.assert_close(value, sm.ShadowLoss()(*batch), rtol=1e-12, atol=0)  # more places, another order of sums


@given(batches(), st.integers(0, 2**20))
def test_a_seed_draws_the_same_negatives_in_slots_and_in_class_order(batch, seed):
    def miner():
        return sm.SemiHardMiner(1.0, "random", generator=torch.Generator().manual_seed(seed))

    checked = as_checked_batch(*batch)
    arranged = arrange_slots(checked, None)
    in_slots = list_triplets(miner().mine_in_slots(checked, arranged))
    assert listed(in_slots) == listed(miner().mine_by_class(checked))


def test_blocks_of_rows_are_joined_and_slots_taken_a_few_at_once():
    generator = torch.Generator().manual_seed(0)
    embeddings, labels = torch.randn(60, 8, generator=generator), torch.arange(60) // 6
    checked = as_checked_batch(embeddings, labels)
    arranged = arrange_slots(checked, 5)
    for miner in (sm.SemiHardMiner(0.5), sm.BatchHardMiner()):
        small = type(miner)(*([0.5] if isinstance(miner, sm.SemiHardMiner) else []), scratch_bytes=1)
        assert listed(list_triplets(small.mine_in_slots(checked, arranged))) == listed(miner.mine(checked))


def test_too_few_slots_are_refused_with_the_number_that_is_needed():
    with pytest.raises(ValueError, match=r"slots is 2, and a row of this batch has 3 positives; give at least as many"):
        sm.ShadowLoss(slots=2)(torch.randn(8, 4), torch.arange(8) // 4)
    with pytest.raises(ValueError, match=r"slots is 2, and a row"):
        sm.ShadowLoss(miner="all", slots=2)(torch.randn(8, 4), torch.arange(8) // 4)
    for wrong in (0, -1, True):
        with pytest.raises(ValueError, match="slots is"):
            sm.ShadowLoss(slots=wrong)


def test_one_large_class_is_left_to_class_order():
    def arranged(labels, slots=None):
        return arrange_slots(as_checked_batch(torch.randn(len(labels), 2), labels), slots)

    assert arranged(torch.arange(600) // 5) is not None
    lonely = torch.arange(200)
    lonely[:50] = 0  # 200 x 49 places for 2,450 pairs
    assert arranged(lonely) is None
    assert arranged(lonely, 49) is not None


def test_to_debug_a_device_is_asked_whether_the_slots_suffice():
    def step(embeddings, labels):
        return sm.ShadowLoss(slots=2, debug=True)(embeddings, labels)

    with pytest.raises(ValueError, match="slots is 2, and a row of this batch has 3 positives"):
        count_step(step, torch.randn(8, 4), torch.arange(8) // 4)
