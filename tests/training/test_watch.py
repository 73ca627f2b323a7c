"""What goes wrong silently is noticed, named with its remedy, and ends a run after so many."""

import pytest
import torch

from shadowmetric.losses import AngularLoss, ShadowLoss
from shadowmetric.mistakes import Stopped
from shadowmetric.training.watch import LOOKED_AT, REMEDIES, STOP_AFTER, WARN_AFTER, Watch, look


@pytest.mark.parametrize("trouble", REMEDIES)
def test_warned_after_some_in_a_row_and_stopped_after_more(trouble):
    counts = {}
    watch = Watch(counts)
    for _ in range(WARN_AFTER[trouble] - 1):
        watch.note(trouble, True)
    assert watch.warnings() == []
    watch.note(trouble, True)
    (warning,) = watch.warnings()
    assert warning.startswith(REMEDIES[trouble])
    assert f"stops at {STOP_AFTER[trouble]}" in warning
    watch.note(trouble, False)
    assert watch.warnings() == []
    for _ in range(STOP_AFTER[trouble] - 1):
        watch.note(trouble, True)
    assert counts[trouble] == STOP_AFTER[trouble] - 1
    with pytest.raises(Stopped, match=f"{STOP_AFTER[trouble]} times in a row: .*--"):
        watch.note(trouble, True)


def test_a_look_finds_the_gaps_and_the_mined_share():
    angles = torch.tensor([0.0, 0.1, 1.0, 1.2])
    rows = torch.stack([angles.cos(), angles.sin()], 1) * torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    labels = torch.tensor([0, 0, 1, 1])
    found = look(rows, labels, ShadowLoss(margin=0.2))
    positive = 1 - torch.tensor([0.1, 0.1, 0.2, 0.2], dtype=torch.float64).cos()
    assert found.positive_gaps == pytest.approx(
        torch.quantile(positive, torch.tensor([0.1, 0.5, 0.9]).double()).tolist(), abs=1e-5
    )
    assert found.negative_gaps[0] > found.positive_gaps[2]
    assert found.active == 0  # every negative is farther than the window
    assert look(rows, labels, ShadowLoss(margin=3.0)).active == 1
    assert look(rows, labels, AngularLoss()).active is None
    assert look(rows, labels, ShadowLoss(miner="all")).active is None


def test_a_look_at_one_point_one_class_and_many_rows():
    point = torch.ones(6, 4)
    assert look(point, torch.arange(6) // 2, ShadowLoss()).mean_cosine == pytest.approx(1)
    alone = look(torch.randn(4, 3), torch.zeros(4, dtype=torch.int64), ShadowLoss())
    assert alone.negative_gaps == ()
    many = look(torch.randn(LOOKED_AT * 2, 3), torch.arange(LOOKED_AT * 2) // 4, ShadowLoss())
    assert len(many.positive_gaps) == 3
