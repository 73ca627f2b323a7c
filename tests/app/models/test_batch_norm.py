"""Frozen batch normalization stays as it was through training, copies and pickles."""

import copy
import pickle
import re

import pytest
import torch
from torch import nn

from shadowmetric.app.models import build_embedder, freeze_batch_norm, has_batch_norm

IMAGES = torch.rand(4, 1, 8, 8, generator=torch.manual_seed(0))


def trained(embedder):
    """Take one step in training mode; return what moved."""
    before = {name: value.clone() for name, value in embedder.state_dict().items()}
    embedder.train()
    learned = [parameter for parameter in embedder.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(learned, lr=0.5)
    embedder(IMAGES)[:, 0].sum().backward()
    optimizer.step()
    return {name for name, value in embedder.state_dict().items() if not torch.equal(value, before[name])}


def norms(moved):
    return {name.rsplit(".", 1)[1] for name in moved if re.search(r"stages\.\d\.2\.", name)}


def test_unfrozen_layers_move_and_frozen_ones_do_not():
    everything = {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}
    assert norms(trained(build_embedder("small_cnn", channels=1))) == everything
    moved = trained(build_embedder("small_cnn", channels=1, freeze_batch_norm=True))
    assert norms(moved) == set()
    assert {"backbone.stages.0.0.weight", "head.weight"} <= moved


def test_the_state_dict_is_unchanged_and_loads_either_way():
    plain, frozen = (build_embedder("small_cnn", channels=1, freeze_batch_norm=freeze) for freeze in (False, True))
    assert plain.state_dict().keys() == frozen.state_dict().keys()
    frozen.load_state_dict(plain.state_dict())
    plain.load_state_dict(frozen.state_dict())
    torch.testing.assert_close(frozen.train()(IMAGES), plain.eval()(IMAGES))


def test_a_row_depends_on_its_own_image_alone():
    plain, frozen = (build_embedder("small_cnn", channels=1, freeze_batch_norm=freeze) for freeze in (False, True))
    torch.testing.assert_close(frozen(IMAGES)[:2], frozen(IMAGES[:2]))
    assert not torch.allclose(plain(IMAGES)[:2], plain(IMAGES[:2]), atol=1e-3)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_copies_and_pickles_are_frozen_too(duplicate):
    embedder = build_embedder("small_cnn", channels=1, freeze_batch_norm=True)
    assert norms(trained(duplicate(embedder))) == set()
    torch.testing.assert_close(duplicate(embedder)(IMAGES), embedder(IMAGES))


def test_only_batch_normalization_stays_in_eval_mode():
    module = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(), nn.BatchNorm2d(3), nn.LayerNorm(3))
    freeze_batch_norm(module)
    freeze_batch_norm(module)  # twice is once
    module.train()
    assert [layer.training for layer in module] == [False, True, False, True]
    assert [type(layer).__name__ for layer in module] == [
        "FrozenBatchNorm1d",
        "Dropout",
        "FrozenBatchNorm2d",
        "LayerNorm",
    ]
    assert isinstance(module[2], nn.BatchNorm2d)


def test_has_batch_norm_means_that_rows_depend_on_their_batch():
    module = nn.Sequential(nn.Conv2d(1, 2, 1), nn.Sequential(nn.BatchNorm2d(2)))
    assert has_batch_norm(module)
    freeze_batch_norm(module)
    assert not has_batch_norm(module)
    assert not has_batch_norm(nn.GroupNorm(1, 2))
