"""Distance-weighted sampling draws what the loops draw, with the probabilities of its paper."""

import math

import pytest
import reference
import torch
from batches import batches, plain_batch, with_references
from hypothesis import given, settings
from hypothesis import strategies as st

import shadowmetric as sm

SCRATCH = st.sampled_from([1, 5000, 2**25])


def listed(triplets) -> list[tuple[int, ...]]:
    return [tuple(row) for row in torch.stack(triplets, 1).tolist()]


@settings(max_examples=15)
@given(batches(14), st.integers(-(2**40), 2**40), SCRATCH)
def test_it_draws_what_the_loops_draw(batch, seed, scratch):
    miner = sm.DistanceWeightedMiner(seed=seed, scratch_bytes=scratch)
    assert listed(miner(*batch)) == reference.distance_weighted(*batch, seed=seed)


@settings(max_examples=15)
@given(with_references(10), SCRATCH)
def test_it_draws_from_references(batch, scratch):
    embeddings, labels, references, reference_labels = batch
    found = sm.DistanceWeightedMiner(scratch_bytes=scratch)(embeddings, labels, references, reference_labels)
    against = {"references": references, "reference_labels": reference_labels}
    assert listed(found) == reference.distance_weighted(embeddings, labels, **against)


@pytest.mark.parametrize("dim", [2, 3, 8, 512, 4096])
def test_a_share_of_a_batch_draws_what_the_whole_draws(dim):
    """As a rank does, against the rows of all."""
    embeddings, labels = plain_batch(rows=30, dim=dim, dtype=torch.float32)
    whole = listed(sm.DistanceWeightedMiner()(embeddings, labels))
    own = slice(7, 19)
    part = sm.DistanceWeightedMiner()(embeddings[own], labels[own], embeddings, labels, anchors_at=7)
    assert [(a + 7, p, n) for a, p, n in listed(part)] == [row for row in whole if 7 <= row[0] < 19]
    assert len({n for *_, n in whole}) > 5


def test_negatives_come_as_often_as_their_weights_say():
    """1,000 seeds of one anchor: within five standard deviations of each probability."""
    directions = [0.0, 0.2, 0.45, 0.9, 1.3, 1.7]  # radians: squared distances from 0.04 to beyond the farthest
    rows = torch.tensor([[math.cos(turn), math.sin(turn), 0.0, 0.0, 0.0] for turn in [0.0, *directions[1:], 0.1]])
    labels = torch.tensor([0, 1, 1, 1, 1, 1, 0])
    weights = []
    for turn in directions[1:]:
        apart = max(2 * math.sin(turn / 2), 0.5)
        density = apart**3 * (1 - apart**2 / 4)
        weights.append(1 / density if 2 * math.sin(turn / 2) < 1.4 else 0.0)
    drawn = [0] * 7
    tries = 1000
    for seed in range(tries):
        drawn[int(sm.DistanceWeightedMiner(seed=seed)(rows, labels).negative[0])] += 1
    for n, weight in enumerate(weights, start=1):
        share = weight / sum(weights)
        assert abs(drawn[n] - tries * share) <= 5 * math.sqrt(tries * share * (1 - share)), (n, drawn)
    assert drawn[0] == drawn[6] == 0


def test_where_all_are_too_far_one_is_drawn_all_the_same():
    rows = torch.cat([torch.eye(3), -torch.eye(3)]).repeat(2, 1)
    labels = torch.tensor([0, 1, 2, 3, 4, 5] * 2)
    found = sm.DistanceWeightedMiner()(rows, labels)
    assert len(found.anchor) == 12
    assert len(set(found.negative.tolist())) > 3


def test_a_bound_beyond_the_fall_of_the_density_is_refused():
    with pytest.raises(ValueError, match=r"farthest is 1\.5; it must be above nearest, and at most the root of 2"):
        sm.DistanceWeightedMiner(farthest=1.5)
    with pytest.raises(ValueError, match=r"farthest is 0\.4"):
        sm.DistanceWeightedMiner(farthest=0.4)


def test_beta_is_learned_as_a_dense_program_learns_it():
    embeddings, labels = plain_batch(rows=20, per_class=4)
    loss = sm.MarginLoss(learned=True).double()
    triplets = sm.DistanceWeightedMiner()(embeddings, labels)
    a, p, n = (torch.nn.functional.normalize(embeddings)[rows] for rows in triplets)
    beta = 1.2 + loss.shift
    terms = torch.relu(torch.cat([(a - p).norm(dim=1) - beta, beta - (a - n).norm(dim=1)]) + 0.2)
    wanted = terms.sum() / (terms > 0).sum()
    value = loss(embeddings, labels)
    torch.testing.assert_close(value, wanted)
    torch.testing.assert_close(*(torch.autograd.grad(one, loss.shift)[0] for one in (value, wanted)))
    assert loss.parameter_groups()[0]["params"] == [loss.shift]
