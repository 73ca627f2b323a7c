"""Bootstrap intervals equal plain loops over the same draws, cover the truth as often as they say, and never vary."""

import math
from statistics import NormalDist

import pytest
import reference
import torch
from batches import labels as some_labels
from hypothesis import given
from hypothesis import strategies as st
from test_memory import LargestAllocation

from shadowmetric.evaluation.bootstrap import Interval, bootstrap_interval, macro_f1_interval, whole_units
from shadowmetric.evaluation.classification import class_report

SCRATCH = [1, 100, 5000, 2**14, 2**24]
VALUES = st.lists(
    st.one_of(st.floats(-1e3, 1e3), st.sampled_from([0.0, 1.0, 0.2, -0.2, math.nan])), min_size=1, max_size=25
)


def draws(queries, resamples, seed):
    """All query numbers at once: what one generator gives, resample after resample."""
    return torch.randint(queries, (resamples, queries), generator=torch.Generator().manual_seed(seed)).tolist()


def quantile(values, share):
    values, place = sorted(values), share * (len(values) - 1)
    below, part = int(place), place - int(place)
    return values[below] + part * (values[min(below + 1, len(values) - 1)] - values[below])


def plain_interval(measure, queries, level, resamples, seed):
    """The definition: measure(query numbers) of each resample, and two quantiles."""
    measures = [measure(drawn) for drawn in draws(queries, resamples, seed)]
    return measure(range(queries)), quantile(measures, (1 - level) / 2), quantile(measures, (1 + level) / 2)


def ends(interval):
    return interval.mean, interval.low, interval.high


def uniform(queries):
    return torch.rand(queries, generator=torch.Generator().manual_seed(queries), dtype=torch.float64)


def binary():
    return (uniform(400) < 0.7).double()


def classified(queries=400, classes=7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (queries,), generator=generator)
    guesses = torch.randint(classes, (queries,), generator=generator)
    known = torch.rand(queries, generator=generator) < 0.9
    return labels, torch.where(torch.rand(queries, generator=generator) < 0.6, labels, guesses), known


@given(VALUES, st.sampled_from([0.5, 0.9, 0.95]), st.sampled_from([1, 2, 40]), st.integers(0, 99))
def test_the_interval_equals_the_loops(values, level, resamples, seed):
    kept = [value for value in values if not math.isnan(value)]
    interval = bootstrap_interval(
        torch.tensor(values, dtype=torch.float64), level=level, resamples=resamples, seed=seed
    )
    assert (interval.level, interval.resamples, interval.queries) == (level, resamples, len(kept))
    if not kept:
        assert all(map(math.isnan, ends(interval)))
        return
    mean = lambda drawn: math.fsum(kept[i] for i in drawn) / len(kept)  # noqa: E731
    assert ends(interval) == pytest.approx(plain_interval(mean, len(kept), level, resamples, seed), abs=1e-11)


@st.composite
def predicted(draw):
    rows = draw(st.integers(1, 20))
    known = draw(st.lists(st.booleans(), min_size=rows, max_size=rows))
    return draw(some_labels(rows)), draw(some_labels(rows)), torch.tensor(known)


@given(predicted(), st.sampled_from([1, 30]), st.integers(0, 99), st.sampled_from(SCRATCH))
def test_the_macro_f1_interval_equals_the_loops(case, resamples, seed, scratch):
    labels, guesses, known = case
    expected = [p if k else None for p, k in zip(guesses.tolist(), known.tolist(), strict=True)]
    truth = labels.tolist()
    macro = lambda drawn: reference.macro_f1([truth[i] for i in drawn], [expected[i] for i in drawn])  # noqa: E731
    interval = macro_f1_interval(labels, guesses, known, resamples=resamples, seed=seed, scratch_bytes=scratch)
    assert ends(interval) == pytest.approx(plain_interval(macro, len(truth), 0.95, resamples, seed), abs=1e-12)
    assert interval.queries == len(truth)


@pytest.mark.parametrize("scratch", SCRATCH)
def test_the_scratch_changes_no_digit(scratch):
    values = uniform(333)
    assert bootstrap_interval(values, resamples=50, scratch_bytes=scratch) == bootstrap_interval(values, resamples=50)
    case = classified(333)
    assert macro_f1_interval(*case, resamples=50, scratch_bytes=scratch) == macro_f1_interval(*case, resamples=50)


def test_threads_change_no_digit():
    values, case, threads = uniform(70_000), classified(70_000, 50_000), torch.get_num_threads()
    one = {"resamples": 5, "scratch_bytes": 3 * 2**20}  # one resample at a time: its sum is shared between threads
    results = set()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.add((bootstrap_interval(values, **one), macro_f1_interval(*case, **one)))
    finally:
        torch.set_num_threads(threads)
    assert len(results) == 1


def test_the_seed_decides():
    values, case = uniform(100), classified()
    assert bootstrap_interval(values, seed=3) == bootstrap_interval(values, seed=3)
    assert bootstrap_interval(values, seed=3).low != bootstrap_interval(values, seed=4).low
    assert macro_f1_interval(*case, seed=3) == macro_f1_interval(*case, seed=3)
    assert macro_f1_interval(*case, seed=3).low != macro_f1_interval(*case, seed=4).low
    torch.manual_seed(5)
    before = torch.rand(1)
    torch.manual_seed(5)
    bootstrap_interval(values)
    assert torch.equal(torch.rand(1), before)  # the global generator is left alone


@pytest.mark.parametrize("kind", ["binary", "skewed"])
def test_the_interval_covers_the_truth_as_often_as_it_says(kind):
    generator = torch.Generator().manual_seed(11)
    covered = 0
    for draw in range(200):
        drawn = torch.rand(150, generator=generator, dtype=torch.float64)
        values, truth = ((drawn < 0.7).double(), 0.7) if kind == "binary" else (-drawn.log(), 1.0)
        interval = bootstrap_interval(values, resamples=400, seed=draw)
        covered += interval.low <= truth <= interval.high
    assert 0.88 <= covered / 200 <= 0.99


def test_the_macro_f1_interval_covers_the_truth_as_often_as_it_says():
    generator = torch.Generator().manual_seed(12)
    right = torch.tensor([0.9, 0.6, 0.75])  # a query of class c is predicted right so often, else as class c + 1
    share = torch.tensor([0.6, 0.3, 0.1])
    hits = share * right
    truth = float((2 * hits / (share + hits + (share - hits).roll(1))).mean())
    covered = 0
    for draw in range(200):
        labels = torch.multinomial(share, 300, replacement=True, generator=generator)
        wrong = torch.rand(300, generator=generator) >= right[labels]
        interval = macro_f1_interval(labels, (labels + wrong) % 3, resamples=300, seed=draw)
        covered += interval.low <= truth <= interval.high
    assert 0.88 <= covered / 200 <= 0.99


@pytest.mark.parametrize("level", [0.68, 0.95, 0.99])
def test_many_queries_give_the_normal_interval(level):
    values = uniform(2000).square()
    interval = bootstrap_interval(values, level=level, resamples=20_000)
    half = NormalDist().inv_cdf((1 + level) / 2) * float(values.std(correction=0)) / math.sqrt(2000)
    assert interval.high - interval.mean == pytest.approx(half, rel=0.05)
    assert interval.mean - interval.low == pytest.approx(half, rel=0.05)


def test_macro_f1_is_that_of_the_report_and_lies_inside():
    labels, guesses, known = classified(1000)
    interval = macro_f1_interval(labels, guesses, known)
    assert interval.mean == class_report(labels, guesses, known).macro_f1
    assert interval.low < interval.mean < interval.high


def test_macro_f1_of_tiny_classes_lies_above_its_resamples():
    labels, guesses, _ = classified(3000, classes=1000)
    interval = macro_f1_interval(labels, guesses, resamples=100)
    assert interval.high < interval.mean  # as the docstring warns


def test_units_are_whole_exact_and_their_sums_fit():
    values = torch.tensor([1.0, -1.0, 0.5, 0.0], dtype=torch.float64)
    units, unit = whole_units(values, 1.0, 10**6)
    assert (units.double() * unit).tolist() == values.tolist()
    assert int(units.max()) * 10**6 < 2**63
    assert whole_units(values * 0, 0.0, 3)[0].tolist() == [0] * 4
    units, unit = whole_units(values * 5e-324, 5e-324, 3)
    assert units.tolist() == [0] * 4
    assert unit > 0


@pytest.mark.parametrize("value", [0.0, 1.0, 0.3, -0.7, 1e-300, 1e300, 5e-324])
@pytest.mark.parametrize("queries", [1, 2, 77])
def test_equal_values_give_an_interval_of_no_width(value, queries):
    values = torch.full((queries,), value, dtype=torch.float64)
    assert bootstrap_interval(values) == Interval(value, value, value, 0.95, 1000, queries)


def test_values_of_the_largest_size_do_not_overflow():
    interval = bootstrap_interval(torch.tensor([1.5e308, -1.5e308, 1e308], dtype=torch.float64))
    assert interval.mean == pytest.approx(1e308 / 3)
    assert -1.5e308 <= interval.low < interval.high <= 1.5e308


def test_one_class_and_one_query():
    ones = torch.ones(9).long()
    assert ends(macro_f1_interval(ones, ones)) == (1.0, 1.0, 1.0)
    assert ends(macro_f1_interval(ones[:1], ones[:1] + 1)) == (0.0, 0.0, 0.0)
    assert ends(macro_f1_interval(ones, ones, ones < 0)) == (0.0, 0.0, 0.0)
    assert all(map(math.isnan, ends(macro_f1_interval(ones[:0], ones[:0]))))
    huge = torch.tensor([2**63 - 1, -(2**63), 2**53 + 1, 2**53])
    assert ends(macro_f1_interval(huge, huge)) == (1.0, 1.0, 1.0)


def test_no_value_gives_nan():
    for values in (torch.empty(0), torch.full((3,), math.nan)):
        interval = bootstrap_interval(values)
        assert interval.queries == 0
        assert all(map(math.isnan, ends(interval)))


def test_lone_queries_do_not_matter():
    values = binary()
    spread = torch.full((900,), math.nan, dtype=torch.float64)
    spread[100:500] = values
    assert bootstrap_interval(spread) == bootstrap_interval(values)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float16, torch.float32])
def test_hits_of_any_type(dtype):
    assert bootstrap_interval(binary().to(dtype)) == bootstrap_interval(binary())


def test_temporaries_stay_within_the_scratch():
    values, case = uniform(60_000), classified(60_000, 5000)
    with LargestAllocation([values, *case]) as seen:
        bootstrap_interval(values, resamples=40)
        macro_f1_interval(*case, resamples=40)
    assert seen.largest <= 16 * 2**20, seen.where


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"level": 1.0}, "level is 1.0"),
        ({"level": 0.0}, "level is 0.0"),
        ({"level": math.nan}, "level is nan"),
        ({"resamples": 0}, "resamples is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"scratch_bytes": 0}, "scratch_bytes is 0"),
    ],
)
def test_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_interval(binary(), **settings)
    with pytest.raises(ValueError, match=message):
        macro_f1_interval(*classified(), **settings)


def test_values_are_refused():
    with pytest.raises(ValueError, match=r"values is torch.float32 of shape \(2, 2\)"):
        bootstrap_interval(torch.ones(2, 2))
    with pytest.raises(ValueError, match="values is infinite for query 1"):
        bootstrap_interval(torch.tensor([1.0, math.inf]))
