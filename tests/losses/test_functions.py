"""Every loss has a function beside its module: the same value and gradient, from the same settings."""

import inspect

import pytest
import torch
from batches import plain_batch
from every_loss import CENTERS, CLASSES, ROWS
from torch import nn

import shadowmetric as sm

DIM = 8
OF_TRIPLETS = {
    "shadow_loss": (sm.ShadowLoss, {"margin": 0.3}),
    "triplet_loss": (sm.TripletLoss, {"margin": 0.3, "squared": False}),
    "soft_margin_triplet_loss": (sm.SoftMarginTripletLoss, {"margin": 0.1}),
    "angular_triplet_loss": (sm.AngularTripletLoss, {"margin": 0.3}),
}
OF_ROWS = {f"{name}_loss": (entry.module, entry.other) for name, entry in ROWS.items()}
OF_CENTERS = {f"{name}_loss": (entry.module, entry.other) for name, entry in CENTERS.items()}
REFERENCES = {"references": plain_batch(seed=1)[0], "reference_labels": plain_batch(seed=1)[1]}


def value_and_gradient(loss, embeddings):
    leaf = embeddings.clone().requires_grad_()
    value = loss(leaf)
    return value.detach(), torch.autograd.grad(value, leaf)[0]


def assert_same(function, module):
    embeddings = plain_batch()[0]
    torch.testing.assert_close(value_and_gradient(function, embeddings), value_and_gradient(module, embeddings))


@pytest.mark.parametrize("name", OF_TRIPLETS)
@pytest.mark.parametrize("normalize", [True, False])
def test_functions_of_triplets(name, normalize):
    make, own = OF_TRIPLETS[name]
    embeddings, labels = plain_batch()
    settings = own | {"normalize": normalize, "reduction": "mean_nonzero"}
    triplets, loss = sm.HardMiner()(embeddings, labels), make(**settings)
    assert_same(lambda rows: getattr(sm, name)(rows, triplets, **settings), lambda rows: loss(rows, labels, triplets))
    among = sm.HardMiner()(embeddings, labels, *REFERENCES.values())
    others = REFERENCES["references"]
    assert_same(
        lambda rows: getattr(sm, name)(rows, among, references=others, **settings),
        lambda rows: loss(rows, labels, among, **REFERENCES),
    )


@pytest.mark.parametrize("name", OF_ROWS)
@pytest.mark.parametrize("normalize", [True, False])
def test_functions_of_batches(name, normalize):
    make, own = OF_ROWS[name]
    embeddings, labels = plain_batch()
    settings = own | {"normalize": normalize}
    function, loss = getattr(sm, name), make(**settings)
    assert_same(lambda rows: function(rows, labels, **settings), lambda rows: loss(rows, labels))
    triplets = sm.HardMiner()(embeddings, labels)
    assert_same(lambda rows: function(rows, labels, triplets, **settings), lambda rows: loss(rows, labels, triplets))
    assert_same(
        lambda rows: function(rows, labels, **REFERENCES, **settings), lambda rows: loss(rows, labels, **REFERENCES)
    )


@pytest.mark.parametrize("name", OF_CENTERS)
def test_functions_of_centers_take_the_centers_and_draw_none(name):
    make, settings = OF_CENTERS[name]
    _, labels = plain_batch()
    loss, function = make(CLASSES, DIM, **settings).double(), getattr(sm, name)
    centers = loss.centers.detach().clone().requires_grad_()
    before = torch.get_rng_state()
    assert_same(lambda rows: function(rows, labels, centers, **settings), lambda rows: loss(rows, labels))
    assert torch.equal(torch.get_rng_state(), before)
    embeddings = plain_batch()[0]
    function(embeddings, labels, centers, **settings).backward()
    loss(embeddings, labels).backward()
    torch.testing.assert_close(centers.grad, loss.centers.grad)


def test_centers_that_fit_no_number_of_classes_are_refused():
    embeddings, labels = plain_batch()
    with pytest.raises(ValueError, match="there are 10 centers; give 3 for each class"):
        sm.soft_triple_loss(embeddings, labels, torch.randn(10, 8), centers_per_class=3)


def test_every_loss_has_a_function_with_its_defaults():
    made = {name: make for table in (OF_TRIPLETS, OF_ROWS, OF_CENTERS) for name, (make, _) in table.items()}
    losses = {name for name in sm.__all__ if name.endswith("Loss")} - {"GatheredLoss", "TwoTowerLoss"}
    assert {make.__name__ for make in made.values()} == losses
    assert {name for name in sm.__all__ if name.endswith("_loss")} == set(made)
    for name, make in made.items():
        module: type[nn.Module] = make
        theirs = inspect.signature(module).parameters
        for parameter in inspect.signature(getattr(sm, name)).parameters.values():
            if parameter.name in theirs and parameter.default is not parameter.empty:
                assert parameter.default == theirs[parameter.name].default, (name, parameter.name)


def test_a_soft_margin_function_refuses_what_is_no_margin():
    embeddings, labels = plain_batch()
    triplets = sm.HardMiner()(embeddings, labels)
    for wrong in (-0.1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=r"it must be a finite number, 0 or above"):
            sm.soft_margin_triplet_loss(embeddings, triplets, margin=wrong)
