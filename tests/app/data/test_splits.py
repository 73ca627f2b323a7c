"""Parting images: nothing is lost or doubled, groups and classes stay whole, and the shares come out."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shadowmetric.app.data.splits import part_classes, part_images

SHARES = st.floats(0.01, 0.99)
SEEDS = st.integers(0, 2**32)
LABELS = st.lists(st.sampled_from([0, 1, 2, 3, -1, 2**62]), min_size=1, max_size=60).map(
    lambda labels: np.array(labels, np.int64)
)


@st.composite
def grouped(draw):
    """Labels, and groups that mostly have one class, with any numbers for names."""
    labels = draw(LABELS)
    names = draw(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=12, unique=True))
    groups = draw(st.lists(st.sampled_from(names), min_size=len(labels), max_size=len(labels)))
    return labels, np.array(groups)


def check_parts(stay, held, count):
    for part in (stay, held):
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()
    assert sorted([*stay.tolist(), *held.tolist()]) == list(range(count))


def majority(labels, groups):
    """The class of each group, in plain loops: the most frequent, of equals the smallest."""
    found = {}
    for group in set(groups.tolist()):
        counts = Counter(labels[groups == group].tolist())
        found[group] = min(counts, key=lambda label: (-counts[label], label))
    return found


@given(LABELS.filter(lambda labels: len(set(labels.tolist())) > 1), SHARES, SEEDS)
@example(np.array([3, 4]), 0.9, 0)  # never all
def test_classes_are_held_out_as_a_whole(labels, share, seed):
    stay, held = part_classes(labels, share, seed=seed)
    check_parts(stay, held, len(labels))
    staying, holding = set(labels[stay].tolist()), set(labels[held].tolist())
    assert not staying & holding
    classes = len(staying) + len(holding)
    assert len(holding) == min(max(1, round(share * classes)), classes - 1)
    again = part_classes(labels, share, seed=seed)
    assert np.array_equal(stay, again[0])
    assert np.array_equal(held, again[1])


@given(LABELS, SHARES, SEEDS)
def test_of_each_class_the_share_is_held_out_to_the_nearest_image(labels, share, seed):
    stay, held = part_images(labels, share, seed=seed, least=2)
    check_parts(stay, held, len(labels))
    counts, holding = Counter(labels.tolist()), Counter(labels[held].tolist())
    for label, count in counts.items():
        if count < 4:  # two on either side, or none is held
            assert holding[label] == 0
        else:
            assert holding[label] == min(max(2, round(share * count)), count - 2)
    again = part_images(labels, share, seed=seed, groups=None, least=2)
    assert np.array_equal(held, again[1])


@given(grouped(), SHARES, SEEDS)
def test_groups_are_never_parted(made, share, seed):
    labels, groups = made
    stay, held = part_images(labels, share, seed=seed, groups=groups)
    check_parts(stay, held, len(labels))
    assert not set(groups[stay].tolist()) & set(groups[held].tolist())
    for again in (groups.tolist(), groups * 3 + 1):  # names of groups mean nothing but their order
        assert np.array_equal(held, part_images(labels, share, seed=seed, groups=again)[1])


@given(grouped(), SHARES, SEEDS)
def test_groups_fill_the_share_of_a_class_as_far_as_they_fit(made, share, seed):
    labels, groups = made
    held = set(groups[part_images(labels, share, seed=seed, groups=groups, least=2)[1]].tolist())
    class_of, sizes = majority(labels, groups), Counter(groups.tolist())
    for label in set(class_of.values()):
        members = [group for group in class_of if class_of[group] == label]
        out = [group for group in members if group in held]
        total, reached = sum(sizes[group] for group in members), sum(sizes[group] for group in out)
        most = min(max(2, round(share * total)), total - 2)
        assert reached == 0 or 2 <= reached <= most
        if reached:  # none that is left would still have fitted
            assert all(reached + sizes[group] > most for group in members if group not in held)


def test_a_mixed_group_counts_for_the_class_that_most_of_it_has():
    """Group 1 is of class 0, so class 1 has group 2 alone, which stays."""
    labels, groups = np.array([0, 0, 0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 1, 1, 2, 2])
    for seed in range(20):
        held = set(groups[part_images(labels, 0.5, seed=seed, groups=groups, least=2)[1]].tolist())
        assert held == {0}
    tie = np.array([1, 0, 1, 1, 1, 1])  # group 5 has one of each: the smaller label has it, and no other group
    for seed in range(20):
        held = part_images(tie, 0.5, seed=seed, groups=np.array([5, 5, 6, 6, 7, 7]))[1].tolist()
        assert held in ([2, 3], [4, 5])


@given(LABELS, SHARES, SEEDS)
def test_by_default_one_image_is_enough_on_either_side(labels, share, seed):
    held = Counter(labels[part_images(labels, share, seed=seed)[1]].tolist())
    for label, count in Counter(labels.tolist()).items():
        assert held[label] == min(max(1, round(share * count)), count - 1)


def test_one_large_group_does_not_take_its_class():
    labels, groups = np.zeros(200, np.int64), np.concatenate([np.zeros(180, int), np.arange(1, 21)])
    for seed in range(20):
        held = part_images(labels, 0.1, seed=seed, groups=groups)[1]
        assert len(held) == 20
        assert 0 not in groups[held]


def test_the_seed_decides_and_everything_can_be_drawn():
    labels = np.repeat(np.arange(10), 10)
    for part in (part_classes, part_images):
        drawn = [part(labels, 0.2, seed=seed)[1] for seed in range(60)]
        assert len({tuple(held.tolist()) for held in drawn}) > 20
        assert set(np.concatenate(drawn).tolist()) == set(range(100))
        assert np.array_equal(part(labels, 0.2)[1], drawn[0])


def test_the_parts_are_the_same_on_every_machine_and_do_not_touch_other_draws():
    labels = np.repeat(np.arange(4), 5)
    before = np.random.get_state()[1].copy()
    assert part_images(labels, 0.34, seed=7)[1].tolist() == [0, 2, 5, 6, 12, 14, 17, 18]
    assert part_classes(labels, 0.5, seed=7)[1].tolist() == [*range(5), *range(10, 15)]
    assert np.array_equal(np.random.get_state()[1], before)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5, float("nan")])
@pytest.mark.parametrize("part", [part_classes, part_images])
def test_what_is_no_share_is_refused(part, share):
    with pytest.raises(ValueError, match=r"the share held out is .*; it must lie between 0 and 1, such as 0.1"):
        part(np.array([0, 1]), share)


@pytest.mark.parametrize("labels", [[], [3], [3, 3]])
def test_one_class_cannot_be_parted(labels):
    with pytest.raises(ValueError, match=f"there is {len(set(labels))} class; parting classes takes two or more"):
        part_classes(np.array(labels, np.int64), 0.5)
