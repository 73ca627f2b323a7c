"""Positives in places for each row: the same losses as over the list of pairs, whatever the classes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import shadowmetric as sm
from shadowmetric.mining.checked_batch import CheckedBatch
from shadowmetric.mining.pairs import LabelPairs, NamedPairs

LOSSES = {"n_pair": sm.NPairLoss, "lifted_structure": sm.LiftedStructureLoss, "angular": sm.AngularLoss}
MANY = 40


def batch(labels, seed, dim=5):
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(len(labels), dim, generator=generator).double()
    if len(labels) > 3:
        embeddings[1] = embeddings[0]  # duplicates
    return embeddings.requires_grad_(), torch.tensor(labels)


def value_and_gradient(loss, embeddings, labels, **against):
    value = loss(embeddings, labels, **against)
    return value.detach(), torch.autograd.grad(value, embeddings)[0]


classes = st.lists(st.integers(-2, 5), min_size=1, max_size=24)  # ragged, with singletons


@settings(max_examples=25, deadline=None)
@given(classes, st.integers(0, 99), st.sampled_from(sorted(LOSSES)))
def test_more_slots_than_needed_change_nothing(labels, seed, name):
    rows = batch(labels, seed)
    expected = value_and_gradient(LOSSES[name](), *rows)
    torch.testing.assert_close(value_and_gradient(LOSSES[name](slots=MANY), *rows), expected)


@settings(max_examples=25, deadline=None)
@given(classes, st.integers(0, 99), st.sampled_from(sorted(LOSSES)), st.sampled_from([None, 0, "elsewhere"]))
def test_slots_change_nothing_with_references(labels, seed, name, anchors_at):
    embeddings, own = batch(labels, seed)
    references, others = batch(labels[::-1] + labels, seed + 1)
    if anchors_at == 0:
        references, others = torch.cat([embeddings.detach(), references]), torch.cat([own, others])
    against = {"references": references, "reference_labels": others, "anchors_at": anchors_at}
    expected = value_and_gradient(LOSSES[name](), embeddings, own, **against)
    torch.testing.assert_close(value_and_gradient(LOSSES[name](slots=2 * MANY), embeddings, own, **against), expected)


def test_one_large_class_is_a_list_and_gives_what_places_give():
    embeddings, labels = batch([0] * 40 + list(range(1, 40)), 0)
    expected = value_and_gradient(sm.LiftedStructureLoss(slots=39), embeddings, labels)
    torch.testing.assert_close(value_and_gradient(sm.LiftedStructureLoss(), embeddings, labels), expected)


@given(classes)
def test_places_and_the_list_hold_the_positives_of_the_masks(labels):
    embeddings, labels = batch(labels, 0)
    pairs = LabelPairs(CheckedBatch(embeddings, labels))
    positive = pairs.masks(0, len(labels)).positive
    columns, real = pairs.positives().of(0, len(labels), MANY)
    filled = torch.zeros_like(positive, dtype=torch.int64).scatter_add_(1, columns, real.long())
    assert torch.equal(filled, positive.long())
    anchor, listed, _ = pairs.positives().all(None)
    assert torch.equal(torch.stack([anchor, listed], 1), positive.nonzero())


def test_named_pairs_have_places_too():
    positive = torch.tensor([2, 0, 2, 2]), torch.tensor([1, 3, 0, 1])
    pairs = NamedPairs(positive, (torch.tensor([0]), torch.tensor([1])), (3, 4))
    columns, real = pairs.positives().of(0, 3, 2)
    assert [row[some].tolist() for row, some in zip(columns, real, strict=True)] == [[3], [], [0, 1]]


@pytest.mark.parametrize("name", LOSSES)
def test_too_few_slots_are_refused(name):
    with pytest.raises(ValueError, match=r"slots is 2, and a row of this batch has 3 positives; give at least as many"):
        LOSSES[name](slots=2)(*batch([0, 0, 0, 0, 1, 1], 0))
    with pytest.raises(ValueError, match="slots is 0; it must be 1 or more"):
        LOSSES[name](slots=0)


@pytest.mark.parametrize("name", LOSSES)
def test_slots_are_part_of_the_formula_of_memory(name):
    assert "P" not in str(LOSSES[name](slots=3).memory().kept)
    assert "slots=3" in repr(LOSSES[name](slots=3))
