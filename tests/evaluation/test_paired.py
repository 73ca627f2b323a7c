"""The paired test equals loops over the same draws and exact enumeration, and keeps its promise under no difference."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_memory import LargestAllocation

from shadowmetric.evaluation.bootstrap import bootstrap_interval
from shadowmetric.evaluation.paired import GROUP, GROUPS_AT_ONCE, paired_test, permute_sums

SCRATCH = [1, 5000, 2**16, 2**24]
SHARES = st.lists(st.tuples(*[st.sampled_from([0.0, 0.2, 0.4, 0.6, 1.0, math.nan])] * 2), min_size=1, max_size=12)


def same_gaps(pairs):
    """Two columns with NaN in the same places."""
    pairs = [(math.nan, math.nan) if math.isnan(sum(pair)) else pair for pair in pairs]
    return tuple(torch.tensor(column, dtype=torch.float64) for column in zip(*pairs, strict=True))


def two_runs(queries=500, shift=0.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shared = torch.rand(queries, generator=generator, dtype=torch.float64)
    first, second = (shared + 0.1 * torch.randn(queries, generator=generator, dtype=torch.float64) for _ in range(2))
    return first + shift, second


def two_sets_of_hits(queries=300, seed=0, better=0.0):
    generator = torch.Generator().manual_seed(seed)
    hard = torch.rand(queries, generator=generator)
    first, second = (0.5 * hard + 0.5 * torch.rand(queries, generator=generator) for _ in range(2))
    return (first < 0.6 + better).double(), (second < 0.6).double()


def exact_p_value(differences):
    """Share of all sign patterns whose sum is at least as far from 0, by whole numbers of fifths."""
    fifths = [round(5 * d) for d in differences]
    sums = [abs(sum(s * f for s, f in zip(signs, fifths, strict=True))) for signs in signs_of(len(fifths))]
    return sum(value >= abs(sum(fifths)) for value in sums) / len(sums)


def signs_of(count):
    return itertools.product((1, -1), repeat=count)


def plain_flipped_sums(units, permutations, seed):
    """The definition: bit b of a random byte decides the sign of query b of its group of 8."""
    generator = torch.Generator().manual_seed(seed)
    sums = [0] * permutations
    width = GROUP * GROUPS_AT_ONCE
    for begin in range(0, len(units), width):
        part = units[begin : begin + width]
        groups = -(-len(part) // GROUP)
        bytes_drawn = torch.randint(256, (permutations, groups), generator=generator).tolist()
        for p, row in enumerate(bytes_drawn):
            sums[p] += sum(-u if row[i // GROUP] >> (i % GROUP) & 1 else u for i, u in enumerate(part))
    return sums


@given(SHARES, st.integers(0, 99))
def test_p_value_is_that_of_all_sign_patterns(pairs, seed):
    first, second = same_gaps(pairs)
    result = paired_test(first, second, permutations=4000, seed=seed, resamples=10)
    differences = (first - second)[~first.isnan()].tolist()
    exact = exact_p_value(differences)
    error = 4.5 * math.sqrt(exact * (1 - exact) / 4000) + 1 / 4000
    assert result.p_value == pytest.approx(exact, abs=error)
    assert 1 / 4001 <= result.p_value <= 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_rounding_does_not_break_ties(dtype):
    first = torch.tensor([0.6, 0.2, 0.4] * 3, dtype=dtype)  # differences 0.2, -0.2, 0.2: each by another rounding
    second = torch.tensor([0.4, 0.4, 0.2] * 3, dtype=dtype)
    exact = exact_p_value((first - second).tolist())
    result = paired_test(first, second, permutations=40_000)
    assert result.p_value == pytest.approx(exact, abs=0.01)
    balanced = paired_test(first[:2].repeat(4), second[:2].repeat(4))
    assert balanced.p_value == 1.0
    assert balanced.inside_the_noise


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_rounding_alone_is_no_difference(dtype):
    second = torch.full((40,), 0.8, dtype=dtype)
    first = torch.nextafter(second, torch.ones_like(second))
    result = paired_test(first, second)
    assert (result.p_value, result.inside_the_noise) == (1.0, True)
    first[0] += 0.2  # one query that counts
    assert paired_test(first, second).inside_the_noise


def test_units_do_not_break_ties_of_many_queries():
    first, second = torch.tensor([[0.3, 0.0, 0.0, 0.0], [0.0, 0.1, 0.1, 0.1]], dtype=torch.float64).repeat(1, 1250)
    result = paired_test(first, second)
    assert (result.p_value, result.inside_the_noise) == (1.0, True)  # the differences sum to 0


def test_tiny_differences_of_large_float64_values_count():
    first, second = two_runs(shift=0.02)
    moved = paired_test(1e6 + 1e-5 * first, 1e6 + 1e-5 * second)
    assert not moved.inside_the_noise
    assert moved.p_value == pytest.approx(paired_test(first, second).p_value, abs=1e-3)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, GROUP * GROUPS_AT_ONCE + 3])
@pytest.mark.parametrize("scratch", SCRATCH)
def test_flipped_sums_equal_the_loops_for_every_scratch(count, scratch):
    units = torch.randint(-(2**40), 2**40, (count,), generator=torch.Generator().manual_seed(count))
    assert permute_sums(units, 20, 5, scratch).tolist() == plain_flipped_sums(units.tolist(), 20, 5)


@given(SHARES, st.integers(0, 99))
def test_the_interval_is_the_bootstrap_of_the_differences(pairs, seed):
    first, second = same_gaps(pairs)
    result = paired_test(first, second, permutations=10, seed=seed, level=0.9, resamples=50)
    interval = bootstrap_interval(first - second, level=0.9, resamples=50, seed=seed)
    assert (result.queries, result.level) == (interval.queries, 0.9)
    assert (result.difference, result.low, result.high) == pytest.approx(
        (interval.mean, interval.low, interval.high), nan_ok=True, abs=0
    )


@pytest.mark.parametrize("scratch", SCRATCH)
def test_the_scratch_changes_no_digit(scratch):
    runs = two_runs(2500)
    few = {"resamples": 20, "permutations": 30}
    assert paired_test(*runs, **few, scratch_bytes=scratch) == paired_test(*runs, **few)


def test_the_seed_decides():
    runs = two_runs(shift=0.008)
    assert paired_test(*runs, seed=1) == paired_test(*runs, seed=1)
    other = paired_test(*runs, seed=2)
    assert (paired_test(*runs, seed=1).low, paired_test(*runs, seed=1).p_value) != (other.low, other.p_value)


def test_the_normal_approximation():
    first, second = two_runs(2000, shift=0.005)
    result = paired_test(first, second, resamples=10_000, permutations=20_000)
    d = first - second
    mean = float(d.mean())
    z = mean / float(d.square().mean().sqrt()) * math.sqrt(len(d))
    assert 0.02 < result.p_value < 0.98
    assert result.p_value == pytest.approx(math.erfc(abs(z) / math.sqrt(2)), abs=0.02)
    half = 1.96 * float(d.std(correction=0)) / math.sqrt(len(d))
    assert (result.low, result.high) == pytest.approx((mean - half, mean + half), abs=0.1 * half)


@pytest.mark.parametrize("runs", [two_runs, two_sets_of_hits])
def test_runs_that_are_equally_good_differ_rarely(runs):
    results = [paired_test(*runs(200, seed=s), seed=s, resamples=300, permutations=500) for s in range(200)]
    assert 0.88 <= sum(r.inside_the_noise for r in results) / 200 <= 0.99
    assert sum(r.p_value <= 0.05 for r in results) / 200 <= 0.1


def test_a_true_difference_is_found_and_has_a_direction():
    first, second = two_sets_of_hits(2000, better=0.1)
    result, reverse = paired_test(first, second), paired_test(second, first)
    assert result.low > 0
    assert not result.inside_the_noise
    assert result.p_value == 1 / 10_001
    assert (reverse.difference, reverse.low, reverse.high) == pytest.approx(
        (-result.difference, -result.high, -result.low), abs=1e-12
    )
    assert reverse.p_value == result.p_value


def test_pairs_say_more_than_two_separate_intervals():
    first, second = two_runs(shift=0.02)
    apart = bootstrap_interval(first), bootstrap_interval(second)
    assert apart[0].low < apart[1].high  # they overlap
    assert not paired_test(first, second).inside_the_noise


@pytest.mark.parametrize("values", [torch.arange(50) / 7, torch.ones(1), torch.tensor([math.nan, 0.5])])
def test_identical_runs_are_inside_the_noise(values):
    result = paired_test(values, values.clone())
    assert (result.difference, result.low, result.high, result.p_value) == (0.0, 0.0, 0.0, 1.0)
    assert result.inside_the_noise
    assert "equal in the mean" in result.sentence()


def test_one_query_has_no_noise_to_judge_by_and_the_sentence_says_so():
    result = paired_test(torch.tensor([0.9]), torch.tensor([0.4]))
    assert result.p_value == 1.0
    assert not result.inside_the_noise
    assert "take more queries" in result.sentence()


def test_nothing_to_compare():
    result = paired_test(torch.tensor([math.nan]), torch.tensor([math.nan]))
    assert math.isnan(result.difference)
    assert (result.queries, result.p_value, result.inside_the_noise) == (0, 1.0, True)
    assert result.sentence() == "No query could be compared, so nothing is known about the difference."


def test_sentences():
    first, second = two_sets_of_hits(2000, better=0.1)
    assert paired_test(first, second).sentence().startswith("The first is higher than the second by 0.1")
    assert paired_test(first, second).sentence().endswith("more than the noise of the queries.")
    assert "is lower than the second by" in paired_test(second, first).sentence()
    assert "2,000 queries, 95 % interval +0." in paired_test(first, second).sentence()
    near = paired_test(*two_runs(shift=0.001)).sentence()
    assert near.endswith("inside the noise of the queries.")


def test_temporaries_stay_within_the_scratch():
    first, second = two_runs(5000)
    with LargestAllocation([first, second]) as seen:
        paired_test(first, second, resamples=500, permutations=10_000)
    assert seen.largest <= 16 * 2**20, seen.where


def test_refusals():
    values = torch.tensor([0.5, math.nan, 1.0])
    with pytest.raises(ValueError, match="first has 3 queries and second 2"):
        paired_test(values, values[:2])
    with pytest.raises(ValueError, match=r"first is NaN for query 1 and second is not \(1 such queries\)"):
        paired_test(values, torch.ones(3))
    with pytest.raises(ValueError, match="second is NaN for query 1 and first is not"):
        paired_test(torch.ones(3), values)
    with pytest.raises(ValueError, match="second is infinite for query 0"):
        paired_test(torch.ones(1), torch.tensor([math.inf]))
    with pytest.raises(ValueError, match=r"first is torch.float32 of shape \(2, 2\)"):
        paired_test(torch.ones(2, 2), values)
    with pytest.raises(ValueError, match="permutations is 0"):
        paired_test(values, values, permutations=0)
    with pytest.raises(ValueError, match=r"level is 2\.0"):
        paired_test(values, values, level=2.0)


def test_runs_that_differ_by_rounding_alone_are_inside_the_noise():
    first = torch.tensor([1.0, 0.001, 0.5])
    second = torch.nextafter(first, torch.tensor([1.0, 1.0, 0.5]))
    assert paired_test(first, second).p_value == 1.0
