"""Batches of classes beside their rivals: shaped as PKSampler's, the rivals as they were mined; they resume."""

import pytest
import torch

import shadowmetric as sm
from shadowmetric.batches.sampler import PKSampler
from shadowmetric.errors import Mistake

LABELS = torch.arange(60) // 5  # twelve classes of five
NEXT = ((LABELS + 1) % 12 * 5 + torch.arange(60) % 5)[:, None]  # the hardest of an image: its place in the next class


def sampler(**settings):
    return sm.HardNegativeSampler(LABELS, 12, 3, seed=4, **settings)


def mined(negatives=NEXT, epoch=1, **settings):
    made = sampler(**settings)
    made.set_negatives(negatives)
    made.set_epoch(epoch)
    return made


def test_before_the_first_mining_batches_are_those_of_the_plain_sampler():
    assert list(sampler()) == list(PKSampler(LABELS, 12, 3, seed=4))


def test_a_class_stands_beside_the_class_of_its_hardest_negative_and_brings_it():
    for batch in mined():
        classes = [LABELS[number].item() for number in batch[::3]]
        assert len(batch) == len(set(batch)) == 12
        assert [LABELS[number].item() for number in batch] == [one for one in classes for _ in range(3)]
        for first in (0, 6):
            seeds = batch[first : first + 3]
            beside = NEXT[seeds, 0].tolist()
            taken = {classes[0], classes[1]} if first else set()
            if (classes[first // 3] + 1) % 12 not in taken:  # else its rival is in the batch already
                assert batch[first + 3] == beside[0]


def test_rivals_come_in_the_order_of_their_rank_and_no_more_than_asked_for():
    negatives = torch.cat([NEXT, (NEXT + 5) % 60, torch.full((60, 1), -1)], 1)
    batch = next(iter(mined(negatives, rivals=2)))
    first = LABELS[batch[0]].item()
    assert [LABELS[number].item() for number in batch[::3][:3]] == [first, (first + 1) % 12, (first + 2) % 12]


def test_without_any_negative_batches_have_classes_all_the_same():
    for batch in mined(torch.full((60, 1), -1)):
        assert len(set(batch)) == 12


def test_small_and_lone_classes():
    labels = torch.tensor([0, 0, 1, 1, 1, 1, 1, 2, 3, 3, 3, 3])
    made = sm.HardNegativeSampler(labels, 8, 4, seed=1)
    made.set_negatives(torch.tensor([7, 7, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1])[:, None])
    for batch in made:
        assert len(set(batch)) == len(batch) == 8
        assert 7 not in batch  # alone in its class


def test_it_goes_on_in_the_middle_of_an_epoch():
    whole = list(mined())
    made = mined()
    state = [next(iter(made)) for _ in range(1)], made.state_dict(), made.mined.state_dict()
    other = sampler()
    other.mined.load_state_dict(state[2])
    other.load_state_dict({"epoch": 1, "position": 1})
    assert state[0] + list(other) == whole


def test_ranks_share_the_batches_of_one_process():
    whole = list(mined())
    parts = zip(mined(rank=0, ranks=2), mined(rank=1, ranks=2), strict=True)
    assert [first + second for first, second in parts] == whole


def test_what_makes_no_sense_is_refused():
    with pytest.raises(Mistake, match="rivals is 0"):
        sampler(rivals=0)
    with pytest.raises(Mistake, match="row numbers for each of 60 images"):
        sampler().set_negatives(NEXT[:10])
    assert "beside its hardest rival in the whole set" in sampler().sentence()
