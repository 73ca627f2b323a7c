"""PK batches: what each is made of, who is visited when, how ranks share it, and how a run resumes."""

from collections import Counter
from itertools import chain, islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shadowmetric.batches.sampler import PKSampler, ShuffledSampler, shares
from shadowmetric.errors import Mistake


def labels_of(sizes):
    return [label for label, size in enumerate(sizes) for _ in range(size)]


def shared(labels, batch, per_class, ranks, **settings):
    """For each batch the shares of all ranks."""
    each = [PKSampler(labels, batch, per_class, rank=rank, ranks=ranks, **settings) for rank in range(ranks)]
    return list(zip(*each, strict=True))


def joined(own):
    return [image for part in own for image in part]


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


@given(ragged, st.integers(2, 40), st.integers(2, 7), st.integers(0, 5))
def test_any_batch_has_different_images_and_no_class_alone(sizes, batch, per_class, seed):
    labels = labels_of(sizes)
    usable = sum(size for size in sizes if size > 1)
    sampler = PKSampler(labels, batch, per_class, seed=seed)
    least = sampler.least_images()
    assert least >= min(batch, usable) - 1  # the last place, if only a single image could fill it
    for found in sampler:
        assert len(set(found)) == len(found)
        assert min(Counter(labels[image] for image in found).values()) > 1
        assert least <= len(found) <= batch
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
    assert "; 2 classes have fewer and give what they have; 1 class with one image is left out." in said


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


@given(ragged, st.integers(2, 40), st.integers(2, 7), st.integers(0, 5), st.integers(1, 3), st.integers(1, 9))
def test_the_shares_of_all_ranks_make_the_batch_of_one_process(sizes, batch, per_class, seed, ranks, multiple):
    labels = labels_of(sizes)
    alone = PKSampler(labels, batch, per_class, seed=seed, batches=5)
    if ranks > alone.least_images():
        with pytest.raises(Mistake, match=f"ranks is {ranks} "):
            shared(labels, batch, per_class, ranks, seed=seed, batches=5, multiple=multiple)
        return
    found = shared(labels, batch, per_class, ranks, seed=seed, batches=5, multiple=multiple)
    for own, numbers in zip(found, alone, strict=True):
        assert joined(own) == numbers
        assert min(map(len, own)) > 0
        group = multiple if -(-len(numbers) // multiple) >= ranks else 1
        assert not any(cut % group for cut in np.cumsum([len(part) for part in own])[:-1])
        groups = [-(-len(part) // group) for part in own]
        assert max(groups) - min(groups) <= 1  # as even as it goes


@pytest.mark.parametrize(
    ("ranks", "multiple", "sizes"),
    [
        (1, 1, [32]),
        (1, 5, [32]),
        (2, 1, [16, 16]),
        (3, 1, [11, 11, 10]),
        (2, 5, [20, 12]),  # groups of 5, 5, 5, 5 and 5, 5, 2
        (3, 5, [15, 10, 7]),
        (3, 12, [12, 12, 8]),
        (2, 31, [16, 16]),  # the last one joins the group before it, and one group is too few
        (3, 16, [11, 11, 10]),  # two groups are too few for three ranks
        (2, 32, [16, 16]),
        (32, 1, [1] * 32),
    ],
)
def test_shares_are_cut_between_groups_where_there_are_enough(ranks, multiple, sizes):
    labels = np.arange(240) // 8
    found = shared(labels, 32, 4, ranks, multiple=multiple)
    assert [[len(part) for part in own] for own in found] == [sizes] * 8
    assert [joined(own) for own in found] == list(PKSampler(labels, 32, 4))


@pytest.mark.parametrize(("batch", "batches"), [(16, None), (17, None), (240, None), (1000, None), (16, 7)])
def test_an_epoch_is_as_long_for_any_number_of_ranks(batch, batches):
    labels = np.arange(240) // 8
    wanted = batches or -(-240 // batch)
    for ranks in (1, 2, 3, 7, 16):
        for rank in (0, ranks - 1):
            sampler = PKSampler(labels, batch, 4, batches=batches, rank=rank, ranks=ranks)
            assert len(sampler) == len(list(sampler)) == wanted


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_rank_knows_the_whole_batch_and_its_places_in_it(rank):
    labels = np.arange(240) // 8
    sampler = PKSampler(labels, 16, 4, seed=2, rank=rank, ranks=3, multiple=5)
    whole, own = list(sampler.whole_batches()), list(sampler)
    assert whole == list(PKSampler(labels, 16, 4, seed=2))
    assert [[numbers[place] for place in sampler.share_of(numbers)] for numbers in whole] == own
    assert sampler.share_of(whole[0]) == (range(5), range(5, 10), range(10, 16))[rank]  # a last one joins its group


@pytest.mark.parametrize("done", [0, 1, 6])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_run_resumes_in_another_number_of_ranks(done, ranks):
    labels = np.arange(200) // 10
    whole = PKSampler(labels, 20, 4, seed=5)
    whole.set_epoch(2)
    killed = [PKSampler(labels, 20, 4, seed=5, rank=rank, ranks=4) for rank in range(4)]
    for sampler in killed:
        sampler.set_epoch(2)
        list(islice(sampler, done))
    (state,) = {tuple(sampler.state_dict().items()) for sampler in killed}  # the same on every rank
    resumed = [PKSampler(labels, 20, 4, seed=5, rank=rank, ranks=ranks) for rank in range(ranks)]
    for sampler in resumed:
        sampler.load_state_dict(dict(state))
    assert [joined(own) for own in zip(*resumed, strict=True)] == list(whole)[done:]


def test_the_sentence_names_the_ranks():
    labels = np.append(np.repeat(np.arange(5), 50), [8, 9])
    alone = PKSampler(labels, 32, 5).sentence()
    assert "rank" not in alone
    for rank in range(3):
        said = PKSampler(labels, 32, 5, rank=rank, ranks=3).sentence()
        assert said == alone.removesuffix(".") + "; 3 ranks share each batch."


def test_a_data_loader_takes_it():
    labels = torch.arange(60) // 6
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(labels), batch_sampler=PKSampler(labels, 12, 3))
    found = list(loader)
    assert len(found) == len(loader) == 5
    assert all(len(torch.unique(batch)) == 4 for (batch,) in found)
    sampler = PKSampler(labels, 12, 3, rank=1, ranks=4, multiple=3)
    share = list(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(labels), batch_sampler=sampler))
    assert len(share) == 5
    assert all(torch.equal(own, batch[3:6]) for (own,), (batch,) in zip(share, found, strict=True))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"batch": 1}, "batch is 1"),
        ({"per_class": 1}, "per_class is 1; it must be a whole number of at least 2"),
        ({"rank": 2, "ranks": 2}, "rank is 2 of 2"),
        ({"rank": -1, "ranks": 2}, "rank is -1 of 2; it must be 0 to 1"),
        ({"ranks": 0}, "ranks is 0"),
        ({"multiple": 0}, "multiple is 0; it must be a whole number of at least 1"),
        ({"batches": 0}, "batches is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"labels": [1, 2, 3]}, "3 classes have one image each to train on"),
        ({"labels": np.array([0.5, 1.0])}, "one integer for each image"),
        ({"labels": []}, "one integer for each image"),
    ],
)
def test_what_is_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        PKSampler(**({"labels": [0, 0, 1, 1]} | settings))


@pytest.mark.parametrize(
    ("sizes", "batch", "per_class", "least"),
    [
        ([50, 50], 4, 2, 4),
        ([50, 50, 1], 2, 5, 2),
        ([2, 2, 1, 1], 32, 5, 4),  # there are no more images that have a positive
        ([2, 2], 4, 2, 4),
        ([2, 2, 2], 3, 2, 2),  # the third place would go to a class alone
        ([3, 3, 3], 3, 2, 3),
        ([4, 9, 9, 9], 10, 5, 9),  # cautious: here the class of 9 fills the place that is left
        ([5, 9, 9, 9], 10, 5, 10),
    ],
)
def test_more_ranks_than_the_smallest_batch_has_images_are_refused_in_one_sentence(sizes, batch, per_class, least):
    labels = labels_of(sizes)
    found = shared(labels, batch, per_class, least, multiple=3, batches=20)
    assert min(len(part) for own in found for part in own) == 1
    for rank in (0, least):  # all of them stop, so that none waits for another
        with pytest.raises(Mistake) as refused:
            PKSampler(labels, batch, per_class, rank=rank, ranks=least + 1)
        assert str(refused.value) == (
            f"ranks is {least + 1} and a batch may have as few as {least} images; use at most {least} ranks."
        )


def test_images_as_they_come_each_before_any_comes_again():
    sampler = ShuffledSampler(25, 10, seed=3)
    batches = list(sampler)
    assert [len(batch) for batch in batches] == [10, 10, 10]
    assert sorted(batches[0] + batches[1] + batches[2][:5]) == list(range(25))
    assert len(set(batches[2])) == 10
    sampler.set_epoch(1)
    assert list(sampler) != batches
    assert sampler.sentence() == "3 batches of 10: images as they come, out of 25."


def test_images_as_they_come_resume_and_are_shared_by_ranks():
    whole = list(ShuffledSampler(25, 10, seed=3))
    later = ShuffledSampler(25, 10, seed=3)
    later.load_state_dict({"epoch": 0, "position": 2})
    assert list(later) == whole[2:]
    parts = [list(ShuffledSampler(25, 10, seed=3, rank=rank, ranks=3)) for rank in range(3)]
    assert [[*chain.from_iterable(batch)] for batch in zip(*parts, strict=True)] == whole
    assert list(ShuffledSampler(4, 10)) != []
    assert all(len(batch) == 4 for batch in ShuffledSampler(4, 10))
    with pytest.raises(Mistake, match="images is 0"):
        ShuffledSampler(0)
