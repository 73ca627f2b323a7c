"""Which way a batch is mined: by its size and device, and by what its miner can do."""

import pytest
import torch

import shadowmetric as sm
from shadowmetric.mining.checked_batch import as_checked_batch
from shadowmetric.mining.ways import choose_way

HARD = sm.HardMiner()


def way(rows=60, references=None, dim=2, miner=HARD, device="cpu", **settings):
    others = [] if references is None else [torch.ones(references, dim), torch.arange(references)]
    made = [torch.zeros(rows, dim), torch.arange(rows), *others]
    return choose_way(as_checked_batch(*(tensor.to(device) for tensor in made)), miner, **settings)


def test_a_cpu_takes_small_batches_in_a_matrix_and_large_ones_in_class_order():
    assert way() == "matrix"
    assert way(512) == "matrix"
    assert way(513) == "class"
    assert way(64, 4096) == "matrix"
    assert way(65, 4096) == "class"


def test_what_does_not_fit_into_the_scratch_is_no_matrix():
    assert way(miner=sm.HardMiner(scratch_bytes=1000)) == "class"
    assert way(60, dim=2**14) == "class"


@pytest.mark.parametrize("rows", [60, 600])
def test_other_devices_and_kernels_take_slots(rows):
    assert way(rows, device="meta") == "slots"
    assert way(rows, fused=True) == "slots"


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("miner", [sm.AllMiner(), sm.SemiHardMiner(0.2, "all")], ids=repr)
def test_several_triplets_of_a_pair_are_no_matrix_and_no_slots(miner, device):
    assert way(miner=miner, device=device) == "class"


def test_a_miner_that_knows_no_matrix_is_asked_for_none():
    class Own(sm.HardMiner):
        fits_matrix = False

    assert way(miner=Own()) == "class"
