"""Rates: how they rise and fall, and whose is whose."""

import itertools
import math
from itertools import pairwise

import pytest
import torch

from shadowmetric.app.models import build_embedder
from shadowmetric.app.training.runs.recipes import FROM_SCRATCH, PAPER
from shadowmetric.app.training.steps.optimizer import build_optimizer, by_layer, set_rates, share_of_peak
from shadowmetric.losses import ShadowLoss, SoftTripleLoss


def test_without_warm_up_it_is_a_cosine():
    found = [share_of_peak(step, 100, 0.0) for step in range(100)]
    assert found == pytest.approx([(1 + math.cos(math.pi * step / 100)) / 2 for step in range(100)])


def test_warm_up_rises_to_the_peak_and_the_cosine_starts_there():
    found = [share_of_peak(step, 100, 0.2) for step in range(100)]
    assert found[:20] == pytest.approx([(step + 1) / 20 for step in range(20)])
    assert found[20] == 1
    assert all(later < earlier for earlier, later in itertools.pairwise(found[20:]))
    assert found[-1] < 0.002


@pytest.mark.parametrize("recipe", [FROM_SCRATCH, PAPER])
def test_backbone_head_and_centers_have_their_own_rates(recipe):
    embedder = build_embedder("small_cnn", dim=8, channels=1, size=8)
    optimizer = build_optimizer(embedder, SoftTripleLoss(3, 8), recipe)
    set_rates(optimizer, 0.5)
    rates = {name: None for name, _ in embedder.named_parameters()}
    by_parameter = {id(one): group["lr"] for group in optimizer.param_groups for one in group["params"]}
    rates = {name: by_parameter[id(one)] for name, one in embedder.named_parameters()}
    assert rates["head.weight"] == recipe.head_learning_rate / 2
    assert {rate for name, rate in rates.items() if name.startswith("backbone.")} == {recipe.learning_rate / 2}
    assert optimizer.param_groups[-1]["lr"] == 0.5e-2
    assert {group["weight_decay"] for group in optimizer.param_groups} == {recipe.weight_decay}


def test_frozen_layers_are_left_out_and_the_kind_is_as_asked():
    embedder = build_embedder("small_cnn", dim=8, channels=1, size=8, freeze_batch_norm=True)
    optimizer = build_optimizer(embedder, ShadowLoss(), PAPER)
    assert type(optimizer) is torch.optim.Adam
    trained = sum(len(group["params"]) for group in optimizer.param_groups)
    assert trained == sum(one.requires_grad for one in embedder.parameters()) < len(list(embedder.parameters()))


def test_rates_fall_towards_the_first_layer():
    parameters = [torch.nn.Parameter(torch.zeros(1)) for _ in range(17)]
    groups = by_layer(parameters, 0.1)
    shares = [share for share, _ in groups]
    assert len(groups) == 8
    assert shares[0] == 1.0
    assert shares[-1] == pytest.approx(0.1)
    assert all(low / high == pytest.approx(0.1 ** (1 / 7)) for high, low in pairwise(shares))
    assert [id(one) for _, some in groups[::-1] for one in some] == [id(one) for one in parameters]
    assert by_layer(parameters, 1.0) == [(1.0, parameters)]
    assert by_layer([], 0.1) == []
    assert by_layer(parameters[:1], 0.1)[0][0] == pytest.approx(0.1)
