"""Numbers that rounding made wrong: duplicates, half types, kinks, scale, zero rows, common offsets."""

import warnings

import pytest
import reference
import torch
from batches import plain_batch
from every_loss import CLASSES, LOSSES

import shadowmetric as sm

UNIT = [name for name in LOSSES if "/free" not in name and name != "n_pair/l2"]


def value_and_gradient(loss, embeddings, labels):
    leaf = embeddings.clone().requires_grad_()
    value = loss(leaf, labels)
    value.backward()
    return value.detach(), leaf.grad


@pytest.mark.parametrize("squared", [True, False])
def test_a_pair_at_distance_zero_is_not_above_zero(squared):
    embeddings, labels = plain_batch(rows=12, per_class=3, dtype=torch.float32)
    embeddings[1] = embeddings[0]  # an image drawn twice
    loss = sm.ContrastiveLoss(squared=squared, reduction="mean_nonzero")
    expected = reference.contrastive(embeddings.double(), labels, squared=squared, reduction="mean_nonzero")
    torch.testing.assert_close(loss(embeddings, labels).double(), expected, rtol=1e-5, atol=0)


def test_that_pair_counts_as_in_pytorch_metric_learning():
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    embeddings, labels = plain_batch(rows=12, per_class=3, dtype=torch.float32)
    embeddings[1] = embeddings[0]
    peer = losses.ContrastiveLoss()(embeddings, labels)  # mean over pairs above zero
    ours = sm.ContrastiveLoss(squared=False, reduction="mean_nonzero")(embeddings, labels)
    torch.testing.assert_close(ours, peer, rtol=1e-4, atol=0)


@pytest.mark.parametrize(
    ("name", "parts"),  # a loss of rows and of pairs is a sum of two gradients, each rounded once
    [("shadow/hard", 1), ("triplet/hard", 1), ("multi_similarity", 1), ("contrastive", 1), ("n_pair", 2)],
)
@pytest.mark.parametrize("spread", [0.04, 0.014])  # a mean cosine of 0.9984 and 0.9998
def test_gradients_of_half_types_are_rounded_once(name, parts, spread):
    direction, labels = plain_batch(rows=30, dim=64, dtype=torch.float32)
    rows = (direction[:1] + spread * direction).bfloat16()
    loss = LOSSES[name](64)
    _, found = value_and_gradient(loss, rows, labels)
    _, exact = value_and_gradient(loss.double(), rows.double(), labels)
    assert (found.double() - exact).norm() < parts * 2**-8 * exact.norm()  # a bfloat16 has eight digits


def test_equal_rows_of_free_length_pull_nowhere():
    embeddings = torch.randn(1, 16, generator=torch.Generator().manual_seed(0)).repeat(24, 1)
    labels = torch.arange(24) // 4
    for miner in ("batch_hard", "hard", "all"):
        value, gradient = value_and_gradient(sm.ShadowLoss(normalize=False, miner=miner), embeddings, labels)
        assert float(value) == pytest.approx(0.2)
        assert (gradient == 0).all()


@pytest.mark.parametrize("name", UNIT)
@pytest.mark.parametrize(("exponent", "dtype"), [(-66, torch.float32), (60, torch.float32), (-660, torch.float64)])
def test_a_row_s_scale_never_matters(name, exponent, dtype):
    embeddings, labels = plain_batch(dtype=dtype)
    torch.manual_seed(0)
    loss = LOSSES[name](8).to(dtype)
    value, gradient = value_and_gradient(loss, embeddings, labels % CLASSES)
    scaled, steeper = value_and_gradient(loss, embeddings * 2.0**exponent, labels % CLASSES)
    torch.testing.assert_close(scaled, value, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(steeper * 2.0**exponent, gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e20, 1e30])
def test_nor_does_it_to_a_score(scale):
    embeddings, labels = plain_batch(rows=60, per_class=6, dtype=torch.float32)
    embeddings = embeddings + 2 * torch.nn.functional.one_hot(labels % 8, 8)
    expected = sm.evaluate(embeddings, labels)
    found = sm.evaluate(embeddings * scale, labels)
    assert found.recall_at == expected.recall_at
    assert found.map_at_r == expected.map_at_r
    assert found.silhouette == pytest.approx(expected.silhouette, abs=1e-6)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_zero_row_has_no_gradient(name, dtype):
    embeddings, labels = plain_batch(dtype=dtype)
    embeddings[3] = 0
    loss = LOSSES[name](8)
    loss = loss.double() if dtype == torch.float64 else loss
    value, gradient = value_and_gradient(loss, embeddings, labels % CLASSES)
    assert torch.isfinite(value)
    assert torch.isfinite(gradient).all()
    if name in UNIT:
        assert (gradient[3] == 0).all()


def test_zero_rows_are_counted_and_said_once(monkeypatch):
    monkeypatch.setattr(given, "_SAID", set())
    embeddings, labels = plain_batch(dtype=torch.float32)
    embeddings[[3, 7]] = 0
    with pytest.warns(RuntimeWarning, match="2 of 30 rows of embeddings are zero"):
        sm.ShadowLoss()(embeddings, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sm.ShadowLoss()(embeddings, labels)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_a_common_offset_does_not_drown_free_rows(offset, seed):
    embeddings, labels = plain_batch(rows=32, dim=16, per_class=4, seed=seed, dtype=torch.float32)
    embeddings = embeddings + offset
    for make, loops in ((sm.HardMiner, reference.hard), (sm.BatchHardMiner, reference.batch_hard)):
        found = torch.stack(make(normalize=False)(embeddings, labels), 1).tolist()
        assert [tuple(row) for row in found] == loops(embeddings, labels, normalize=False)
    exact = torch.cdist(embeddings.double(), embeddings.double(), compute_mode="donot_use_mm_for_euclid_dist")
    exact[labels[:, None] == labels] = torch.inf
    assert torch.equal(sm.HardMiner(normalize=False)(embeddings, labels).negative[::3], exact.argmin(1))
    value = sm.TripletLoss(1.0, miner="hard", normalize=False)(embeddings, labels)
    mined = reference.hard(embeddings, labels, normalize=False)
    loops = reference.triplet(embeddings.double(), mined, margin=1.0, normalize=False)
    torch.testing.assert_close(value.double(), loops, rtol=1e-5, atol=1e-5)


def test_rows_too_long_to_be_compared_as_they_are_are_refused_in_one_sentence():
    embeddings, labels = plain_batch(dtype=torch.float32)
    with pytest.raises(ValueError, match=r"embeddings has a row of length .* lengths must stay below 1e\+18"):
        sm.TripletLoss(normalize=False)(embeddings * 1e19, labels)
    sm.TripletLoss()(embeddings * 1e19, labels)
