"""PK batches: what each is made of, who is visited when, and that a run resumes with the very next batch."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shadowmetric.data.sampler import PKSampler, shares


def made_of(batch, labels):
    return sorted(Counter(labels[image] for image in batch).values(), reverse=True)


@pytest.mark.parametrize(
    ("batch", "per_class", "classes", "wanted"),
    [
        (32, 5, 100, [5, 5, 5, 5, 5, 5, 2]),
        (32, 5, 5, [7, 7, 6, 6, 6]),
        (31, 5, 100, [6, 5, 5, 5, 5, 5]),
        (30, 5, 6, [5] * 6),
        (32, 5, 6, [6, 6, 5, 5, 5, 5]),
        (32, 5, 7, [5, 5, 5, 5, 5, 5, 2]),
        (4, 5, 9, [4]),
        (3, 2, 9, [3]),
        (6, 5, 1, [6]),
    ],
)
def test_shares_of_a_batch(batch, per_class, classes, wanted):
    assert shares(batch, min(per_class, batch), classes) == wanted


ragged = st.lists(st.integers(1, 12), min_size=1, max_size=15).filter(lambda sizes: max(sizes) > 1)


@given(ragged, st.integers(2, 40), st.integers(2, 7), st.integers(0, 5), st.integers(1, 3))
def test_any_batch_has_different_images_and_no_class_alone(sizes, batch, per_class, seed, ranks):
    labels = [label for label, size in enumerate(sizes) for _ in range(size)]
    usable = sum(size for size in sizes if size > 1)
    sampler = PKSampler(labels, batch, per_class, seed=seed, ranks=ranks)
    for found in sampler:
        assert len(set(found)) == len(found)
        assert min(Counter(labels[image] for image in found).values()) > 1
        assert len(found) <= batch
        assert len(found) >= min(batch, usable) - 1  # the last place, if only a single image could fill it
    assert sampler.alone == sizes.count(1)


@given(st.integers(2, 30), st.integers(2, 5), st.integers(2, 33), st.integers(0, 99))
def test_every_class_comes_before_any_comes_again(classes, per_class, batch, seed):
    labels = np.repeat(np.arange(classes), per_class)
    sampler = PKSampler(labels, batch, per_class, seed=seed, batches=40)
    visits = Counter()
    for found in sampler:
        visits.update({labels[image] for image in found})
        assert max(visits.values()) - min(visits[label] for label in range(classes)) <= 1


def test_every_image_of_a_class_comes_before_any_comes_again():
    labels = np.repeat(np.arange(3), 7)
    seen = Counter()
    for found in PKSampler(labels, 6, 2, batches=50):
        seen.update(found)
        for label in range(3):
            counts = [seen[image] for image in np.flatnonzero(labels == label)]
            assert max(counts) - min(counts) <= 1


def test_the_paper_s_batch_and_the_sentence():
    labels = np.repeat(np.arange(20), 50)
    sampler = PKSampler(labels, 32, 5)
    for found in sampler:
        assert made_of(found, labels) == [5, 5, 5, 5, 5, 5, 2]
    assert (
        sampler.sentence() == "32 batches of 32: 6 × 5 + 1 × 2 images of 7 classes, out of 1000 images of 20 classes."
    )
    five = PKSampler(np.append(np.repeat(np.arange(5), 50), [8, 9]), 32, 5)
    assert made_of(next(iter(five)), np.repeat(np.arange(5), 50)) == [7, 7, 6, 6, 6]
    assert five.sentence().endswith(
        "2 × 7 + 3 × 6 images of 5 classes, out of 250 images of 5 classes; 2 classes with one image are left out."
    )


def test_small_classes_are_counted():
    said = PKSampler(np.repeat(np.arange(6), [9, 9, 9, 4, 2, 1]), 10, 5).sentence()
    assert "; 2 classes have fewer and give what they have; 1 classes with one image are left out." in said


def test_small_classes_give_what_they_have_and_others_fill_the_batch():
    labels = np.repeat(np.arange(10), 3)
    for found in PKSampler(labels, 16, 5):
        assert made_of(found, labels) in ([3, 3, 3, 3, 2, 2], [3, 3, 3, 3, 3], [3, 3, 3, 3, 3, 1][:5])
        assert len(found) in (15, 16)


def test_seed_and_epoch_decide_and_nothing_else():
    labels = torch.arange(200) // 10

    def epoch(number, **settings):
        sampler = PKSampler(labels, 20, 4, **settings)
        sampler.set_epoch(number)
        return list(sampler)

    assert epoch(3, seed=1) == epoch(3, seed=1)
    assert epoch(3, seed=1) != epoch(4, seed=1)
    assert epoch(3, seed=1) != epoch(3, seed=2)
    assert epoch(1, seed=0) != epoch(0, seed=1)
    sampler = PKSampler(labels, 20, 4, seed=1)
    sampler.set_epoch(3)
    assert list(sampler) == list(sampler) == epoch(3, seed=1)


@pytest.mark.parametrize("done", [0, 1, 4, 10])
def test_a_run_resumes_with_the_very_next_batch(done):
    labels = np.arange(200) // 10
    whole = PKSampler(labels, 20, 4, seed=5)
    whole.set_epoch(2)
    batches = list(whole)
    killed = PKSampler(labels, 20, 4, seed=5)
    killed.set_epoch(2)
    assert list(islice(killed, done)) == batches[:done]
    resumed = PKSampler(labels, 20, 4, seed=5)
    resumed.load_state_dict(killed.state_dict())
    assert list(resumed) == batches[done:]
    assert resumed.state_dict() == {"epoch": 2, "position": 0}


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_ranks_take_turns_in_one_stream(ranks):
    labels = np.arange(240) // 8
    parts = [list(PKSampler(labels, 16, 4, batches=6 // ranks, rank=rank, ranks=ranks)) for rank in range(ranks)]
    turns = [batch for turn in zip(*parts, strict=True) for batch in turn]
    assert turns == list(PKSampler(labels, 16, 4, batches=6))
    assert len({len(part) for part in parts}) == 1


def test_a_data_loader_takes_it():
    labels = torch.arange(60) // 6
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(labels), batch_sampler=PKSampler(labels, 12, 3))
    found = list(loader)
    assert len(found) == len(loader) == 5
    assert all(len(torch.unique(batch)) == 4 for (batch,) in found)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"batch": 1}, "batch is 1"),
        ({"per_class": 1}, "per_class is 1; it must be a whole number of at least 2"),
        ({"rank": 2, "ranks": 2}, "rank is 2 of 2"),
        ({"batches": 0}, "batches is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"labels": [1, 2, 3]}, "each of the 3 classes has one image only"),
        ({"labels": np.array([0.5, 1.0])}, "one integer for each image"),
        ({"labels": []}, "one integer for each image"),
    ],
)
def test_what_is_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        PKSampler(**({"labels": [0, 0, 1, 1]} | settings))
