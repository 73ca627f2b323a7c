"""What goes wrong silently is noticed, named with its remedy, and ends a run after so many."""

import pytest
import torch

from shadowmetric.app.training.steps.watch import (
    LOOKED_AT,
    REMEDIES,
    STOP_AFTER,
    WARN_AFTER,
    Watch,
    anchor_gradient,
    look,
    mine_again,
)
from shadowmetric.errors import Stopped
from shadowmetric.losses import AngularLoss, ShadowLoss, TripletLoss
from shadowmetric.losses.catalogue import build_loss
from shadowmetric.losses.length_penalty import LengthPenalty
from shadowmetric.mining import SemiHardMiner


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


def anchor_batch(dim=6):
    rows = torch.randn(24, dim, generator=torch.Generator().manual_seed(1))
    return rows, torch.arange(24) // 4


@pytest.mark.parametrize(("factor", "kind"), [(1, ShadowLoss), (2, TripletLoss)])
def test_the_anchor_gradient_on_unit_rows_is_tangential(factor, kind):
    rows, labels = anchor_batch()
    loss = kind(9.0, miner="hard")  # a margin at which every hinge is active
    anchor, positive, negative = loss.miner(rows, labels)
    unit = torch.nn.functional.normalize(rows)
    difference = unit[negative] - unit[positive]
    tangent = difference - (difference * unit[anchor]).sum(1, keepdim=True) * unit[anchor]
    wanted = factor * (tangent.norm(dim=1) / rows[anchor].norm(dim=1)).mean().item()
    for one in (loss, LengthPenalty(loss, 1.0)):
        assert look(rows, labels, one).anchor_gradient == pytest.approx(wanted, rel=1e-4)


def test_on_unit_rows_shadows_anchor_gradient_is_half_of_triplets():
    rows, labels = anchor_batch()
    rows = torch.nn.functional.normalize(rows)
    miner = SemiHardMiner(0.5)
    first, second = (look(rows, labels, loss(0.5, miner=miner)).anchor_gradient for loss in (ShadowLoss, TripletLoss))
    assert first == pytest.approx(second / 2, rel=1e-4)


def test_twice_shadow_has_the_anchor_gradient_of_triplet():
    rows, labels = anchor_batch()
    rows = torch.nn.functional.normalize(rows)
    how = {"margin": 0.5, "miner": "semi_hard", "classes": 6, "dim": 6}
    shadow, double, control = (
        look(rows, labels, build_loss(name, **how)).anchor_gradient
        for name in ("shadow", "double_shadow", "triplet_control")
    )
    assert double == pytest.approx(2 * shadow, rel=1e-5)
    assert double == pytest.approx(control, rel=1e-4)


def test_the_anchor_gradient_of_free_rows_is_the_papers_formula_with_its_signs():
    rows, labels = anchor_batch()
    loss = ShadowLoss(50.0, miner="hard", normalize=False)
    anchor, positive, negative = loss.miner(rows, labels)
    a = rows[anchor]
    length = a.norm(dim=1, keepdim=True)
    u = a / length

    def part(x):
        shadow = (u * x).sum(1, keepdim=True)
        return (length - shadow).sign() * (u - (x - shadow * u) / length)

    wanted = (part(rows[positive]) - part(rows[negative])).norm(dim=1).mean().item()
    assert look(rows, labels, loss).anchor_gradient == pytest.approx(wanted, rel=1e-4)


def test_no_anchor_gradient_where_nothing_is_mined():
    rows, labels = anchor_batch()
    for loss in (AngularLoss(), ShadowLoss(miner="all")):
        assert mine_again(rows, labels, loss) is None
        assert look(rows, labels, loss).anchor_gradient is None
    alone = mine_again(rows, torch.zeros(24, dtype=torch.int64), ShadowLoss())
    assert alone is not None
    assert anchor_gradient(rows, alone, ShadowLoss()) is None
    assert look(3 * torch.nn.functional.normalize(rows), labels, ShadowLoss()).row_length == pytest.approx(3)
