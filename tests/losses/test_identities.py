"""What Shadow Loss is, proved: each claim of the mathematics as a test, the paper's mistakes included."""

import math

import pytest
import reference
import torch
from batches import plain_batch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import shadowmetric as sm
from shadowmetric.losses.shadow import gap


def unit_batch(seed=0, rows=40, dim=8):
    embeddings, labels = plain_batch(rows=rows, dim=dim, seed=seed)
    return nn.functional.normalize(embeddings), labels


def gradient(loss, embeddings, labels, *triplets):
    leaf = embeddings.clone().requires_grad_()
    loss(leaf, labels, *triplets).backward()
    return leaf.grad


@pytest.mark.parametrize("margin", [0.05, 0.2, 1.0])
@pytest.mark.parametrize("miner", ["hard", "semi_hard", "batch_hard", "all"])
@pytest.mark.parametrize("normalize", [True, False])
def test_on_unit_rows_shadow_is_half_the_squared_triplet_at_twice_the_margin(margin, miner, normalize):
    """Their miners by name included: no other setting is to be remembered."""
    embeddings, labels = unit_batch()
    shadow = sm.ShadowLoss(margin, miner=miner, normalize=normalize)
    triplet = sm.TripletLoss(2 * margin, miner=miner, normalize=normalize)
    if (
        normalize or miner != "semi_hard"
    ):  # of free rows gaps and squared distances are compared, equal but for rounding
        for mine, theirs in zip(shadow.miner(embeddings, labels), triplet.miner(embeddings, labels), strict=True):
            assert torch.equal(mine, theirs)
    torch.testing.assert_close(shadow(embeddings, labels), triplet(embeddings, labels) / 2)
    if normalize:  # free rows: equal value on the sphere, but another gradient off it
        torch.testing.assert_close(gradient(shadow, embeddings, labels), gradient(triplet, embeddings, labels) / 2)


@given(st.integers(0, 1000), st.sampled_from([0.05, 0.2, 0.7]), st.sampled_from(["hard", "semi_hard", "batch_hard"]))
def test_float32_rows_of_any_length_are_mined_alike_to_the_last_tie(seed, margin, miner):
    embeddings, labels = plain_batch(seed=seed, dtype=torch.float32)
    embeddings[7] = embeddings[12]  # ties
    shadow, triplet = sm.ShadowLoss(margin, miner=miner), sm.TripletLoss(2 * margin, miner=miner)
    for mine, theirs in zip(shadow.miner(embeddings, labels), triplet.miner(embeddings, labels), strict=True):
        assert torch.equal(mine, theirs)
    assert torch.equal(2 * shadow(embeddings, labels), triplet(embeddings, labels))
    assert torch.equal(2 * gradient(shadow, embeddings, labels), gradient(triplet, embeddings, labels))


def test_with_every_window_streamed_the_two_are_one_too():
    embeddings, labels = unit_batch()
    shadow = sm.ShadowLoss(0.2, miner=sm.SemiHardMiner(0.2, "all", unit="gap"))
    triplet = sm.TripletLoss(0.4, miner=sm.SemiHardMiner(0.4, "all"))
    torch.testing.assert_close(shadow(embeddings, labels), triplet(embeddings, labels) / 2)


def test_on_free_rows_a_miner_by_name_compares_what_its_loss_compares():
    embeddings, labels = plain_batch()
    for miner, loops in (("hard", reference.hard), ("batch_hard", reference.batch_hard)):
        gaps = loops(embeddings, labels, unit="gap", normalize=False)
        distances = loops(embeddings, labels, normalize=False)
        angles = loops(embeddings, labels)
        assert gaps != distances != angles != gaps
        losses = (sm.ShadowLoss, gaps), (sm.TripletLoss, distances), (sm.SoftMarginTripletLoss, distances)
        for loss, expected in (*losses, (sm.AngularTripletLoss, angles)):
            found = loss(miner=miner, normalize=False).miner(embeddings, labels)
            assert [tuple(row) for row in torch.stack(found, 1).tolist()] == expected


def test_on_free_rows_the_window_is_the_margin_in_gaps():
    embeddings, labels = plain_batch()
    anchor, positive, negative = sm.ShadowLoss(0.3, normalize=False).miner(embeddings, labels)
    closer, farther = (
        (
            embeddings[anchor].norm(dim=1)
            - (embeddings[anchor] * embeddings[rows]).sum(1) / embeddings[anchor].norm(dim=1)
        ).abs()
        for rows in (positive, negative)
    )
    assert len(anchor) > 20
    assert ((closer < farther) & (farther < closer + 0.3)).all()


def test_on_rows_of_free_length_shadow_is_another_loss():
    embeddings, labels = plain_batch()
    triplets = sm.SemiHardMiner(0.2)(embeddings, labels)
    shadow = sm.ShadowLoss(0.2, normalize=False)(embeddings, labels, triplets)
    triplet = sm.TripletLoss(0.4, normalize=False)(embeddings, labels, triplets)
    assert abs(float(shadow - triplet / 2)) > 0.01


@given(st.integers(0, 1000), st.sampled_from([0.05, 0.2, 0.7]), st.sampled_from(["nearest", "all", "random"]))
def test_inside_the_window_both_hinges_are_active_and_the_gradient_ratio_is_two(seed, margin, negatives):
    embeddings, labels = unit_batch(seed)
    triplets = sm.SemiHardMiner(margin, negatives)(embeddings, labels)
    anchor, positive, negative = (embeddings[rows] for rows in triplets)
    shadows = (
        torch.stack(
            [
                sm.shadow_loss_rows(a, p, n, margin)
                for a, p, n in zip(*(r.split(1) for r in (anchor, positive, negative)), strict=True)
            ]
        )
        if len(anchor)
        else torch.zeros(0)
    )
    squares = torch.relu((anchor - positive).square().sum(1) - (anchor - negative).square().sum(1) + margin)
    assert ((shadows > margin / 2) & (shadows < margin)).all()
    assert ((squares > 0) & (squares < margin)).all()
    shadow, triplet = sm.ShadowLoss(margin), sm.TripletLoss(margin)
    torch.testing.assert_close(
        gradient(triplet, embeddings, labels, triplets), 2 * gradient(shadow, embeddings, labels, triplets)
    )


@given(st.integers(0, 10_000), st.floats(0.1, 3.0))
def test_the_gradient_formula_with_the_sign_on_both_terms(seed, scale):
    """grad_a gap = s (u - (x - (u.x) u) / |a|), grad_x gap = -s u, s = sign(|a| - u.x); the paper drops s once."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(5, generator=generator, dtype=torch.float64).requires_grad_()
    x = (scale * 3 * torch.randn(5, generator=generator, dtype=torch.float64)).requires_grad_()
    length = a.norm()
    gap(a @ x, a @ a, x @ x).backward()
    u = (a / length).detach()
    sign = torch.sign(length - u @ x).detach()
    across = (x - (u @ x) * u).detach() / length.detach()
    torch.testing.assert_close(a.grad, sign * (u - across))
    torch.testing.assert_close(x.grad, -sign * u)
    if sign < 0:  # the printed formula: the sign on the first term only
        assert not torch.allclose(a.grad, sign * u - across)


def test_both_signs_occur_and_agree_with_finite_differences():
    a = torch.tensor([[1.0, 0.5, 0.0]], dtype=torch.float64)
    near, beyond = a * 0.3 + 0.1, a * 4.0 + 0.2  # the shadow of the second is longer than the anchor
    for positive, negative in ((near, beyond), (beyond, near)):
        rows = tuple(r.clone().requires_grad_() for r in (a, positive, negative))
        assert torch.autograd.gradcheck(lambda *r: sm.shadow_loss_rows(*r, 10.0), rows)
    assert (a @ beyond.T / a.norm() > a.norm()).all()


def test_on_unit_rows_the_radial_parts_of_the_anchor_gradient_cancel():
    a, p, n = torch.nn.functional.normalize(torch.randn(3, 50, 6, dtype=torch.float64), dim=2)
    shadows = [(a * x).sum(1, keepdim=True) for x in (p, n)]
    assert all((shadow < 1).all() for shadow in shadows)  # so both signs are +1, and sgn u - sgn u is 0
    printed = (a - (p - shadows[0] * a)) - (a - (n - shadows[1] * a))
    torch.testing.assert_close((printed * a).sum(1), torch.zeros(50, dtype=torch.float64), atol=1e-12, rtol=0)
    anchor = a.clone().requires_grad_()
    sm.shadow_loss_rows(anchor, p, n, margin=9.0).backward()
    torch.testing.assert_close(50 * anchor.grad, printed)


def test_two_lipschitz_in_the_unit_anchor_no_counter_example_found_and_the_bound_is_nearly_reached():
    generator = torch.Generator().manual_seed(0)
    steepest = 0.0
    for dim in (2, 3, 16):
        u, p, n, v = (
            nn.functional.normalize(torch.randn(20_000, dim, generator=generator, dtype=torch.float64))
            for _ in range(4)
        )
        n[:10_000] = -p[:10_000]  # the worst case: positive and negative opposite
        moved = nn.functional.normalize(u + 1e-3 * v)
        value = torch.relu((1 - (u * p).sum(1)) - (1 - (u * n).sum(1)) + 0.2)
        after = torch.relu((1 - (moved * p).sum(1)) - (1 - (moved * n).sum(1)) + 0.2)
        slope = (value - after).abs() / (u - moved).norm(dim=1)
        assert (slope <= 2 + 1e-9).all()
        steepest = max(steepest, float(slope.max()))
    assert steepest > 1.9


@pytest.mark.parametrize("module", [sm.ShadowLoss, sm.TripletLoss])
def test_collapse_costs_the_margin_and_pushes_nowhere(module):
    labels = torch.arange(20) // 4
    embeddings = torch.ones(20, 6, dtype=torch.float64).requires_grad_()
    value = module(0.2, miner="all")(embeddings, labels)
    value.backward()
    torch.testing.assert_close(value.detach(), torch.tensor(0.2, dtype=torch.float64))
    assert embeddings.grad.abs().max() < 1e-15


PAPER = {"miner": sm.SemiHardMiner(0.2)}
ALIKE = {
    "the paper's protocol": (sm.ShadowLoss(0.2, **PAPER), sm.TripletLoss(0.2, **PAPER)),
    "miners by name": (sm.ShadowLoss(0.2), sm.TripletLoss(0.4)),
}


@pytest.mark.parametrize("losses", ALIKE)
@pytest.mark.parametrize("weight_decay", [0.0, 1e-2])
def test_under_adam_shadow_and_triplet_train_alike(losses, weight_decay):
    """Without weight decay the two weights stay equal to rounding; with it they part, since its share differs."""

    def trained(loss):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 6)).double()
        optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, eps=1e-30, weight_decay=weight_decay)
        generator = torch.Generator().manual_seed(1)
        for _ in range(60):
            inputs = torch.randn(32, 12, generator=generator, dtype=torch.float64)
            labels = torch.arange(32) // 5
            inputs += labels[:, None] * 0.1
            optimizer.zero_grad()
            loss(network(inputs), labels).backward()
            optimizer.step()
        return nn.utils.parameters_to_vector(network.parameters()).detach()

    difference = float((trained(ALIKE[losses][0]) - trained(ALIKE[losses][1])).abs().max())
    if weight_decay:
        assert difference > 1e-6
    else:
        assert difference < 1e-12


def test_the_printed_algorithm_equals_the_mined_form_and_keeps_far_more():
    embeddings, labels = plain_batch()
    triplets = sm.SemiHardMiner(0.4)(embeddings, labels)
    rows = sm.shadow_loss_rows(*(embeddings[numbers] for numbers in triplets), margin=0.3)
    torch.testing.assert_close(rows, sm.shadow_loss(embeddings, triplets, margin=0.3, normalize=False))


@pytest.mark.parametrize("unit", ["gap", "cosine", "squared_distance", "distance", "angle"])
def test_margins_convert_there_and_back(unit):
    margins = sm.equivalent_margins(0.3, unit)
    assert getattr(margins, unit) == pytest.approx(0.3)
    for other in margins._fields:
        assert sm.equivalent_margins(getattr(margins, other), other) == pytest.approx(margins)
    a, b = torch.tensor([1.0, 0.0]), torch.tensor([math.cos(margins.angle), math.sin(margins.angle)])
    assert float((a - b).norm()) == pytest.approx(margins.distance, abs=1e-6)
    assert float(1 - a @ b) == pytest.approx(margins.gap, abs=1e-6)


def test_margins_read_as_a_table_and_print_nothing(capsys):
    margins = sm.equivalent_margins(0.2)
    assert repr(margins).splitlines() == [
        "gap               0.2",
        "cosine            0.2",
        "squared distance  0.4",
        "distance, from 0  0.632456",
        "angle, from 0     0.643501 rad, 36.87 degrees",
    ]
    assert str(margins) == repr(margins)
    assert margins.squared_distance == 0.4
    assert not capsys.readouterr().out


def test_margins_beyond_the_sphere_are_refused():
    with pytest.raises(ValueError, match="more than unit rows can be apart"):
        sm.equivalent_margins(2.1, "gap")
