"""Small batches on a CPU: the slopes that are written down are autograd's, and so are value and gradient of a loss."""

import numpy as np
import pytest
import torch
from batches import batches
from hypothesis import given

import shadowmetric as sm
from shadowmetric.losses import distances, mined, shadow, slopes
from shadowmetric.losses.catalogue import DoubleShadow
from shadowmetric.mining import ways

LOSSES = {
    "shadow": sm.ShadowLoss(0.2),
    "shadow, all positives": sm.ShadowLoss(0.3, miner="hard"),
    "twice shadow": DoubleShadow(0.2, miner="batch_hard"),
    "triplet": sm.TripletLoss(0.5, miner="hard", reduction="sum"),
    "triplet, distance": sm.TripletLoss(0.2, squared=False, reduction="mean_nonzero"),
    "soft margin": sm.SoftMarginTripletLoss(),
    "soft margin with a margin": sm.SoftMarginTripletLoss(margin=0.3, miner="semi_hard"),
    "angular triplet": sm.AngularTripletLoss(0.2, miner="hard"),
    "fallback": sm.ShadowLoss(miner=sm.SemiHardMiner(0.1, fallback="farthest", positives="farthest")),
}
MEASURES = {
    "gap": (slopes.gap_and_slope, shadow.gap),
    "squared": (slopes.squared_distance_and_slope, distances.squared_distance),
    "distance": (slopes.distance_and_slope, distances.distance),
    "angle": (slopes.angle_and_slope, distances.angle),
}
HINGES = {
    "relu": (slopes.relu_and_slope, torch.relu),
    "softplus": (slopes.softplus_and_slope, torch.nn.functional.softplus),
}


@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_has_the_value_and_slope_of_its_formula(name):
    written, formula = MEASURES[name]
    squared = torch.tensor([2.0**-40, 1e-3, 0.5, 2.0, 3.5, 4.0], dtype=torch.float64)
    cosine = (1 - squared / 2).requires_grad_()
    one = torch.ones((), dtype=torch.float64)
    measured = formula(cosine, one, one)
    (slope,) = torch.autograd.grad(measured.sum(), cosine)
    value, written_slope = written((2 - 2 * cosine).detach().numpy())
    torch.testing.assert_close(torch.from_numpy(value), measured.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(torch.from_numpy(written_slope), slope, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", MEASURES)
def test_equal_rows_pull_nowhere(name):
    value, slope = MEASURES[name][0](np.zeros(1))
    assert slope[0] == 0
    assert abs(value[0]) <= 1e-3  # arccos is kept off its edge


@pytest.mark.parametrize("name", HINGES)
def test_a_hinge_has_the_value_and_slope_of_its_formula(name):
    written, formula = HINGES[name]
    difference = torch.tensor([-50.0, -1.0, 0.0, 1e-9, 0.3, 40.0], dtype=torch.float64, requires_grad=True)
    value = formula(difference)
    (slope,) = torch.autograd.grad(value.sum(), difference)
    found, found_slope = written(difference.detach().numpy())
    torch.testing.assert_close(torch.from_numpy(found), value.detach(), rtol=1e-8, atol=1e-12)
    torch.testing.assert_close(torch.from_numpy(found_slope), slope, rtol=1e-8, atol=1e-12)


def step(loss, rows, labels, references):
    """Return value and gradients of a loss, compared with references or not."""
    rows = rows.clone().requires_grad_()
    others = {}
    if references is not None:
        others = {"references": references.clone().requires_grad_(), "reference_labels": labels.flip(0)}
    value = loss(rows, labels, **others)
    value.backward()
    return [value.detach(), rows.grad, *(other.grad for other in list(others.values())[:1])]


@pytest.mark.parametrize("way", ["slots", "class"])
@pytest.mark.parametrize("compared", ["itself", "references"])
@pytest.mark.parametrize("name", LOSSES)
@given(batch=batches())
def test_every_way_gives_the_same(name, compared, way, batch):
    rows, labels = batch
    references = rows.flip(0) + 0.125 if compared == "references" else None
    small = step(LOSSES[name], rows, labels, references)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mined, "choose_way", lambda *_, **__: way)
        if way == "class":
            patch.setattr(ways, "SMALL_BATCH", 0)
        large = step(LOSSES[name], rows, labels, references)
    for ours, theirs in zip(small, large, strict=True):
        scale = float(theirs.abs().amax()) if theirs.numel() else 0.0
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6 * max(scale, 1e-6))


@pytest.mark.parametrize("name", LOSSES)
def test_the_sums_of_a_small_batch_are_its_value(name):
    rows, labels = torch.randn(20, 6), torch.arange(20) // 4
    torch.testing.assert_close(LOSSES[name].sums(rows, labels).value(), LOSSES[name](rows, labels))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_value_may_be_changed_in_place(reduction):
    rows, labels = torch.randn(12, 4, requires_grad=True), torch.arange(12) // 3
    loss = sm.ShadowLoss(miner="hard", reduction=reduction)
    (once,) = torch.autograd.grad(loss(rows, labels), rows)
    value = loss(rows, labels)
    value *= 3
    value.backward()
    torch.testing.assert_close(rows.grad, 3 * once)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_gradients_have_the_type_of_the_rows(dtype):
    rows = torch.randn(12, 4).to(dtype).requires_grad_()
    value = sm.ShadowLoss(miner="hard")(rows, torch.arange(12) // 3)
    value.backward()
    assert rows.grad.dtype == dtype
    assert value.dtype == torch.promote_types(dtype, torch.float32)


def test_rows_that_want_no_gradient_get_none():
    rows, references = torch.randn(6, 4), torch.randn(6, 4, requires_grad=True)
    labels = torch.arange(6) // 3
    loss = sm.ShadowLoss(miner="hard")
    loss(rows, labels, references=references, reference_labels=labels).backward()
    assert rows.grad is None
    assert references.grad.abs().sum() > 0
