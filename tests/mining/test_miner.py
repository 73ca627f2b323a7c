"""What miners share: a state that trainers can save, as they save that of modules."""

import pytest
import torch
from batches import plain_batch

import shadowmetric as sm

DRAWING = {"negatives": "random", "margin": float("inf")}


@pytest.mark.parametrize("miner", [sm.SemiHardMiner(), sm.HardMiner(), sm.BatchHardMiner(), sm.AllMiner()])
def test_a_miner_that_draws_nothing_has_no_state(miner):
    assert miner.state_dict() == {}
    miner.load_state_dict({})
    assert list(sm.ShadowLoss(miner=miner).state_dict()) == []


def test_a_miner_that_draws_goes_on_where_another_was(tmp_path):
    def miner(seed):
        return sm.SemiHardMiner(**DRAWING, generator=torch.Generator().manual_seed(seed))

    batch, first = plain_batch(), miner(1)
    first(*batch)
    torch.save(first.state_dict(), tmp_path / "miner.pt")
    again = miner(2)
    assert not torch.equal(again(*batch).negative, first(*batch).negative)
    first.load_state_dict(torch.load(tmp_path / "miner.pt", weights_only=True))
    again.load_state_dict(torch.load(tmp_path / "miner.pt", weights_only=True))
    for _ in range(3):
        assert torch.equal(again(*batch).negative, first(*batch).negative)


def test_a_state_of_other_settings_is_refused_in_a_sentence():
    drawing = sm.SemiHardMiner(**DRAWING, generator=torch.Generator())
    with pytest.raises(
        ValueError, match=r"^the state has nothing, and SemiHardMiner.* wants generator; give a state of"
    ):
        drawing.load_state_dict({})
    with pytest.raises(ValueError, match=r"^the state has generator, and HardMiner.* wants nothing; give a state of"):
        sm.HardMiner().load_state_dict(drawing.state_dict())
