"""Parting pictures: nothing is lost or doubled, groups and classes stay whole, and the shares come out."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shadowmetric.data.splits import part_classes, part_images

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
def test_of_each_class_the_share_is_held_out_to_the_nearest_picture(labels, share, seed):
    stay, held = part_images(labels, share, seed=seed)
    check_parts(stay, held, len(labels))
    counts, holding = Counter(labels.tolist()), Counter(labels[held].tolist())
    for label, count in counts.items():
        if count == 1:
            assert holding[label] == 0
        else:
            assert 1 <= holding[label] <= count - 1
            nearest = min(max(share * count, 1), count - 1)
            assert abs(holding[label] - nearest) <= 0.5 + 1e-9
    again = part_images(labels, share, seed=seed, groups=None)
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
def test_a_class_reaches_its_share_to_the_nearest_group_and_its_only_group_stays(made, share, seed):
    labels, groups = made
    held = set(groups[part_images(labels, share, seed=seed, groups=groups)[1]].tolist())
    class_of, sizes = majority(labels, groups), Counter(groups.tolist())
    for label in set(class_of.values()):
        members = [group for group in class_of if class_of[group] == label]
        out = [group for group in members if group in held]
        if len(members) == 1:
            assert not out
            continue
        assert 1 <= len(out) < len(members)
        total, reached = sum(sizes[group] for group in members), sum(sizes[group] for group in out)
        largest = max(sizes[group] for group in members)
        assert abs(reached - share * total) <= largest
        if len(out) > 1:  # it would not be nearer without the last of them, whichever that was
            assert any(abs(reached - sizes[group] - share * total) >= abs(reached - share * total) for group in out)
        if len(out) < len(members) - 1:  # nor with the next
            rest = [group for group in members if group not in held]
            assert any(abs(reached + sizes[group] - share * total) >= abs(reached - share * total) for group in rest)


def test_a_mixed_group_counts_for_the_class_that_most_of_it_has():
    """Group 1 is of class 0, so class 1 has one group alone, which stays; group 0 or 1 is held out of class 0."""
    labels, groups = np.array([0, 0, 0, 1, 1]), np.array([0, 1, 1, 1, 2])
    for seed in range(20):
        held = set(groups[part_images(labels, 0.5, seed=seed, groups=groups)[1]].tolist())
        assert held in ({0}, {1})
    tie = np.array([1, 0, 1, 1])  # group 5 has one of each: the smaller label has it, and no other group
    for seed in range(20):
        assert part_images(tie, 0.5, seed=seed, groups=np.array([5, 5, 6, 7]))[1].tolist() in ([2], [3])


def test_the_seed_decides_and_everything_can_be_drawn():
    labels = np.repeat(np.arange(10), 10)
    for part in (part_classes, part_images):
        drawn = [part(labels, 0.2, seed=seed)[1] for seed in range(60)]
        assert len({tuple(held.tolist()) for held in drawn}) > 20
        assert set(np.concatenate(drawn).tolist()) == set(range(100))
        assert np.array_equal(part(labels, 0.2)[1], drawn[0])


def test_the_parts_are_the_same_on_every_machine_and_do_not_touch_other_draws():
    labels = np.repeat(np.arange(4), 3)
    before = np.random.get_state()[1].copy()
    assert part_images(labels, 0.34, seed=7)[1].tolist() == [0, 4, 6, 9]
    assert part_classes(labels, 0.5, seed=7)[1].tolist() == [0, 1, 2, 6, 7, 8]
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
