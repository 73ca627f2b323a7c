"""Every loss that a name stands for, and the two controls, which are one loss in two spellings."""

import pytest
import torch
from batches import plain_batch
from every_loss import CENTERS, CLASSES, ENTRIES
from torch import nn

import shadowmetric as sm
from shadowmetric.losses.catalogue import CLASS_LOSSES, CONTROLS, LOSSES, PAPER_LOSSES, build_loss
from shadowmetric.losses.mined import MINERS, MinedLoss
from shadowmetric.losses.proxies import ProxyLoss

OF_TRIPLETS = ("shadow", "triplet", "angular_triplet", "soft_margin_triplet", "triplet_control", "double_shadow")
DIM = 8


def build(name, margin=0.2, miner="semi_hard", **settings):
    torch.manual_seed(0)  # of learned centers
    return build_loss(name, margin=margin, miner=miner, classes=CLASSES, dim=DIM, **settings)


def unit_batch(seed=0, dtype=torch.float64):
    embeddings, labels = plain_batch(rows=30, dim=DIM, seed=seed)
    return nn.functional.normalize(embeddings).to(dtype), labels


def value_and_gradient(loss, embeddings, labels):
    leaf = embeddings.clone().requires_grad_()
    value = loss(leaf, labels)
    value.backward()
    return value.detach(), leaf.grad


def core(loss):
    """The loss that has the settings."""
    return loss if isinstance(loss, MinedLoss) else loss.loss


@pytest.mark.parametrize("name", LOSSES)
def test_every_name_is_a_loss_with_a_gradient(name):
    embeddings, labels = unit_batch(dtype=torch.float32)
    loss = build(name)
    value, gradient = value_and_gradient(loss, embeddings, labels)
    assert value.shape == ()
    assert torch.isfinite(value)
    assert value > 0
    assert torch.isfinite(gradient).all()
    assert gradient.abs().max() > 1e-6
    for parameter in loss.parameters():
        assert parameter.grad.abs().max() > 0


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("shadow", sm.ShadowLoss),
        ("triplet", sm.TripletLoss),
        ("soft_margin_triplet", sm.SoftMarginTripletLoss),
        ("angular_triplet", sm.AngularTripletLoss),
        *((name, entry.module) for name, entry in ENTRIES.items()),
        ("normalized_softmax", sm.CosFaceLoss),
    ],
)
def test_a_name_is_the_loss_of_that_name(name, kind):
    assert type(build(name)) is kind


def test_normalized_softmax_is_cross_entropy_of_the_cosines_with_one_center_a_class():
    embeddings, labels = unit_batch()
    loss = build("normalized_softmax").double()
    value, gradient = value_and_gradient(loss, embeddings, labels)
    leaf = embeddings.clone().requires_grad_()
    cosines = nn.functional.normalize(leaf) @ nn.functional.normalize(loss.centers.detach()).T
    wanted = nn.functional.cross_entropy(8 * cosines, labels)
    wanted.backward()
    torch.testing.assert_close(value, wanted.detach())
    torch.testing.assert_close(gradient, leaf.grad)


def test_the_lists_of_names():
    of_rows_too = {"proxy_anchor", "group"}
    assert set(CLASS_LOSSES) == {name for name in LOSSES if isinstance(build(name), ProxyLoss)} - of_rows_too
    assert set(PAPER_LOSSES) | set(CONTROLS) <= set(LOSSES)
    assert len(PAPER_LOSSES) == 6
    assert not set(PAPER_LOSSES) & set(CONTROLS)


@pytest.mark.parametrize("miner", MINERS)
@pytest.mark.parametrize("margin", [0.05, 0.2, 0.7])
@pytest.mark.parametrize("seed", range(3))
def test_the_two_controls_are_one_loss(miner, margin, seed):
    embeddings, labels = unit_batch(seed)
    first, second = (value_and_gradient(build(name, margin, miner), embeddings, labels) for name in CONTROLS)
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    assert first[0] > 0
    shadow = value_and_gradient(build("shadow", margin, miner), embeddings, labels)
    for one, other in zip(second, shadow, strict=True):
        assert torch.equal(one, 2 * other)


@pytest.mark.parametrize("unit_rows", [True, False])
@pytest.mark.parametrize("mining_unit", ["loss", "squared"])
@pytest.mark.parametrize("miner", MINERS)
def test_the_controls_use_the_triplets_of_shadow(miner, mining_unit, unit_rows):
    embeddings, labels = plain_batch(rows=30, dim=DIM)
    settings = {"mining_unit": mining_unit, "unit_rows": unit_rows}
    wanted = build("shadow", 0.2, miner, **settings).miner(embeddings, labels)
    assert len(wanted.anchor) > 0
    for name in CONTROLS:
        for rows, others in zip(build(name, 0.2, miner, **settings).miner(embeddings, labels), wanted, strict=True):
            assert torch.equal(rows, others)


@pytest.mark.parametrize("name", ["shadow", "triplet", "soft_margin_triplet", "angular_triplet", "triplet_control"])
@pytest.mark.parametrize("unit_rows", [True, False])
def test_the_paper_s_miners_compare_squared_distances_of_unit_rows_whatever_the_loss(name, unit_rows):
    settings = {"mining_unit": "squared", "unit_rows": unit_rows}
    assert build(name, 0.3, **settings).miner == sm.SemiHardMiner(0.3)
    assert build(name, 0.3, "hard", **settings).miner == sm.HardMiner()
    assert build(name, 0.3, "batch_hard", **settings).miner == sm.BatchHardMiner()


def test_a_miner_by_name_has_the_unit_of_its_loss_and_compares_the_rows_it_compares():
    units = {"shadow": "gap", "triplet": "squared", "angular_triplet": "angle", "soft_margin_triplet": "distance"}
    for name, unit in units.items():
        margin = float("inf") if name == "soft_margin_triplet" else 0.3
        for unit_rows in (True, False):
            miner = build(name, 0.3, unit_rows=unit_rows).miner
            assert miner == sm.SemiHardMiner(margin, unit=unit, normalize=unit_rows)


@pytest.mark.parametrize("name", OF_TRIPLETS)
@pytest.mark.parametrize("margin", [0.1, 0.3])
def test_a_margin_reaches_the_losses_of_triplets_and_their_mining(name, margin):
    wanted = {"soft_margin_triplet": 0.0, "triplet_control": 2 * margin}.get(name, margin)
    for mining_unit in ("loss", "squared"):
        loss = build(name, margin, mining_unit=mining_unit)
        assert core(loss).margin == wanted
        endless = name == "soft_margin_triplet" and mining_unit == "loss"
        assert loss.miner.margin == (float("inf") if endless else margin)


@pytest.mark.parametrize("margin", [0.1, 0.6])
@pytest.mark.parametrize("mining_unit", ["loss", "squared"])
def test_a_soft_margin_lets_go_of_no_triplet_unless_the_paper_s_protocol_mines(mining_unit, margin):
    embeddings, labels = unit_batch()
    window = sm.SemiHardMiner(margin if mining_unit == "squared" else float("inf"))
    a, p, n = (embeddings[rows] for rows in window(embeddings, labels))
    wanted = torch.log1p(torch.exp((a - p).norm(dim=1) - (a - n).norm(dim=1))).mean()
    loss = build("soft_margin_triplet", margin, mining_unit=mining_unit)
    torch.testing.assert_close(loss(embeddings, labels), wanted)


@pytest.mark.parametrize("name", OF_TRIPLETS)
@pytest.mark.parametrize("miner", MINERS)
def test_a_miner_s_name_reaches_the_losses_of_triplets(name, miner):
    assert type(build(name, miner=miner).miner) is type(MINERS[miner](0.2, "gap", True, 2**20))


@pytest.mark.parametrize("name", [name for name in LOSSES if name not in OF_TRIPLETS])
def test_the_other_losses_keep_the_values_of_their_papers(name):
    embeddings, labels = unit_batch(dtype=torch.float32)
    found = [build(name, margin, miner)(embeddings, labels) for margin, miner in ((0.1, "hard"), (0.7, "all"))]
    assert torch.equal(*found)


def test_classes_and_dim_reach_the_centers():
    for name in CENTERS:
        classes = len(build(name).centers) // getattr(build(name), "centers_per_class", 1)
        assert (classes, build(name).centers.shape[1]) == (CLASSES, DIM)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"name": "shadows"}, f"loss is 'shadows'; choose one of {', '.join(LOSSES)}."),
        ({"miner": "soft"}, "miner is 'soft'; choose one of hard, semi_hard, batch_hard, all."),
        ({"name": "n_pair", "miner": ""}, "miner is ''; choose one of"),
        ({"mining_unit": "gap"}, "mining_unit is 'gap'; choose one of loss, squared"),
        ({"margin": 0.0}, "margin is 0.0; it must be a number above 0"),
        ({"name": "triplet_control", "margin": -0.1}, "margin is -0.1; it must be a number above 0"),
        ({"name": "soft_margin_triplet", "margin": 0.0}, "margin is 0.0; it must be a number above 0"),
    ],
)
def test_what_is_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        build(**({"name": "shadow"} | settings))
