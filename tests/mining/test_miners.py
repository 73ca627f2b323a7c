"""Every miner equals its plain loop in reference.py, on batches that hypothesis makes."""

import math

import pytest
import reference
import torch
from batches import batches, plain_batch, with_references
from hypothesis import given
from hypothesis import strategies as st

import shadowmetric as sm
from shadowmetric.mining.checked_batch import as_checked_batch

SCRATCH = st.sampled_from([1, 3000, 2**25])  # blocks of 8 rows, a few, all at once


def listed(triplets) -> list[tuple[int, ...]]:
    return [tuple(t) for t in torch.stack(triplets, 1).tolist()]


UNITS = st.sampled_from(["squared", "gap", "distance", "angle"])


@given(batches(), UNITS, st.booleans(), SCRATCH)
def test_hard_is_the_closest_negative_with_every_positive(batch, unit, normalize, scratch):
    found = sm.HardMiner(unit=unit, normalize=normalize, scratch_bytes=scratch)(*batch)
    assert listed(found) == reference.hard(*batch, unit=unit, normalize=normalize)


@given(batches(), UNITS, st.booleans(), SCRATCH)
def test_batch_hard_is_the_farthest_positive_and_the_closest_negative(batch, unit, normalize, scratch):
    found = sm.BatchHardMiner(unit=unit, normalize=normalize, scratch_bytes=scratch)(*batch)
    assert listed(found) == reference.batch_hard(*batch, unit=unit, normalize=normalize)


@given(batches())
def test_all_is_every_triplet(batch):
    assert listed(sm.AllMiner()(*batch)) == reference.all_triplets(*batch)


SETTINGS = st.fixed_dictionaries(
    {
        "margin": st.sampled_from([0.2, 1.0, 2.5, math.inf]),
        "positives": st.sampled_from(["every", "nearest", "farthest"]),
        "unit": UNITS,
        "fallback": st.sampled_from(["drop", "farthest"]),
        "normalize": st.booleans(),
    }
)


@given(batches(), SETTINGS, SCRATCH)
def test_semi_hard_nearest_equals_the_loops(batch, settings, scratch):
    found = sm.SemiHardMiner(**settings, scratch_bytes=scratch)(*batch)
    assert listed(found) == reference.semi_hard(*batch, **settings)


@given(batches(), st.sampled_from([0.2, 1.0, math.inf]), UNITS, st.booleans(), SCRATCH)
def test_semi_hard_all_is_the_whole_window(batch, margin, unit, normalize, scratch):
    settings = {"margin": margin, "negatives": "all", "unit": unit, "normalize": normalize}
    found = sm.SemiHardMiner(**settings, scratch_bytes=scratch)(*batch)
    assert listed(found) == reference.semi_hard(*batch, **settings)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("unit", ["squared", "gap", "distance", "angle"])
def test_large_batches_in_class_order_equal_the_loops_too(unit, normalize):
    embeddings, labels = plain_batch(rows=40, dim=6, per_class=12)
    embeddings[3] = embeddings[30]
    embeddings[7] = 0
    labels = labels[torch.randperm(40, generator=torch.Generator().manual_seed(1))]
    for margin in (0.2, 1.0):
        settings = {"margin": margin, "unit": unit, "normalize": normalize}
        expected = reference.semi_hard(embeddings, labels, **settings)
        assert expected
        found = sm.SemiHardMiner(**settings).mine_by_class(as_checked_batch(embeddings, labels))
        assert listed(found.triplets) == expected


def test_on_unit_rows_every_unit_has_one_order():
    embeddings, labels = plain_batch()
    for make in (sm.HardMiner, sm.BatchHardMiner):
        found = [listed(make(unit=unit)(embeddings, labels)) for unit in ("squared", "gap", "distance", "angle")]
        assert found[1:] == found[:-1]


def test_windows_that_are_one_in_two_units_are_one():
    """In gaps twice as wide as in squared distance, exactly; in angles as the pair of rows that a turn makes."""
    embeddings, labels = plain_batch(rows=60, dtype=torch.float32)
    for margin in (0.05, 0.2, 0.7):
        gap, squared = sm.SemiHardMiner(margin, unit="gap"), sm.SemiHardMiner(2 * margin)
        assert listed(gap(embeddings, labels)) == listed(squared(embeddings, labels))
    turn = torch.tensor([0.0, 0.1, 0.2999, 0.3001, 3.0, 3.1], dtype=torch.float64)
    circle = torch.stack([turn.cos(), turn.sin()], 1)
    found = sm.SemiHardMiner(0.2, "all", unit="angle")(circle, torch.tensor([0, 0, 1, 2, 3, 4]))
    assert listed(found) == [(0, 1, 2), (1, 0, 2), (1, 0, 3)]
    assert len(sm.SemiHardMiner(3.2, "all", unit="angle")(circle, torch.tensor([0, 0, 1, 2, 3, 4])).anchor) == 8


@given(batches(), st.integers(0, 99), SCRATCH)
def test_random_draws_one_of_the_window_for_each_pair_that_has_one(batch, seed, scratch):
    def draw(scratch_bytes):
        generator = torch.Generator().manual_seed(seed)
        return listed(sm.SemiHardMiner(1.0, "random", generator=generator, scratch_bytes=scratch_bytes)(*batch))

    window = reference.semi_hard(*batch, margin=1.0, negatives="all")
    drawn = draw(scratch)
    assert set(drawn) <= set(window)
    assert [t[:2] for t in drawn] == sorted({t[:2] for t in window})
    assert drawn == draw(2**25)  # the same generator draws the same, whatever the block


def test_random_reaches_every_negative_of_the_window_about_equally():
    embeddings, labels = plain_batch(rows=12, per_class=4)
    window = reference.semi_hard(embeddings, labels, margin=math.inf, negatives="all")
    pair = next(t[:2] for t in window if sum(u[:2] == t[:2] for u in window) >= 4)
    negatives = [t[2] for t in window if t[:2] == pair]
    miner = sm.SemiHardMiner(math.inf, "random", generator=torch.Generator().manual_seed(0))
    seen = [t[2] for _ in range(400) for t in listed(miner(embeddings, labels)) if t[:2] == pair]
    assert set(seen) == set(negatives)
    assert min(seen.count(n) for n in negatives) > 400 / len(negatives) / 2


@given(
    with_references(),
    st.sampled_from(["hard", "batch_hard", "all", "semi_hard", "window", "gaps", "gap_window"]),
    SCRATCH,
)
def test_references_take_the_batch_s_place_and_never_serve_a_row_itself(batch, rule, scratch):
    free = {"unit": "gap", "normalize": False}
    embeddings, labels, references, reference_labels = batch
    miner, loops = {
        "hard": (sm.HardMiner(scratch_bytes=scratch), reference.hard),
        "batch_hard": (sm.BatchHardMiner(scratch_bytes=scratch), reference.batch_hard),
        "all": (sm.AllMiner(), reference.all_triplets),
        "semi_hard": (
            sm.SemiHardMiner(1.0, scratch_bytes=scratch),
            lambda *a, **k: reference.semi_hard(*a, margin=1.0, **k),
        ),
        "window": (
            sm.SemiHardMiner(1.0, "all", scratch_bytes=scratch),
            lambda *a, **k: reference.semi_hard(*a, margin=1.0, negatives="all", **k),
        ),
        "gaps": (
            sm.BatchHardMiner(**free, scratch_bytes=scratch),
            lambda *a, **k: reference.batch_hard(*a, **free, **k),
        ),
        "gap_window": (
            sm.SemiHardMiner(0.5, **free, scratch_bytes=scratch),
            lambda *a, **k: reference.semi_hard(*a, margin=0.5, **free, **k),
        ),
    }[rule]
    expected = loops(embeddings, labels, references=references, reference_labels=reference_labels)
    assert listed(miner(embeddings, labels, references, reference_labels)) == expected


@pytest.mark.parametrize("name", ["HardMiner", "BatchHardMiner", "SemiHardMiner"])
@pytest.mark.parametrize("rows", [100, 257, 700])
def test_larger_batches_in_several_blocks_equal_one_block(name, rows):
    embeddings, labels = plain_batch(rows=rows, dim=16, per_class=7)
    labels = labels[torch.randperm(rows, generator=torch.Generator().manual_seed(1))]
    embeddings[5] = embeddings[60]
    miner = getattr(sm, name)
    small, large = miner(scratch_bytes=150_000)(embeddings, labels), miner(scratch_bytes=2**28)(embeddings, labels)
    assert listed(small) == listed(large)
    dense = torch.cdist(torch.nn.functional.normalize(embeddings), torch.nn.functional.normalize(embeddings)).square()
    anchor, positive, negative = small
    assert (labels[anchor] == labels[positive]).all()
    assert (labels[anchor] != labels[negative]).all()
    if name == "SemiHardMiner":
        gain = dense[anchor, negative] - dense[anchor, positive]
        assert ((gain > 0) & (gain < 0.2)).all()


@given(batches(exact=False), st.randoms(use_true_random=False))
def test_permuted_rows_and_new_class_names_give_the_same_triplets(batch, random):
    embeddings, labels = batch
    embeddings = torch.nn.functional.pad(embeddings, (0, 1), value=1.0)  # unit rows of one number are all ties
    embeddings = (
        embeddings
        + torch.randn(embeddings.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 1e-3
    )
    order = list(range(len(labels)))
    random.shuffle(order)
    names = {
        int(label): 10**15 + 7 * i
        for i, label in enumerate(random.sample(labels.unique().tolist(), len(labels.unique())))
    }
    renamed = torch.tensor([names[int(label)] for label in labels])
    for miner in (sm.HardMiner(), sm.BatchHardMiner(), sm.SemiHardMiner(1.0)):
        plain = set(listed(miner(embeddings, labels)))
        permuted = listed(miner(embeddings[order], renamed[order]))
        assert {tuple(order[i] for i in t) for t in permuted} == plain


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_other_types_mine_as_their_own_float64_values_do(dtype):
    embeddings, labels = plain_batch(rows=60, dtype=dtype)
    for miner in (sm.HardMiner(), sm.BatchHardMiner(), sm.SemiHardMiner(0.4), sm.SemiHardMiner(0.4, "all")):
        assert listed(miner(embeddings, labels)) == listed(miner(embeddings.double(), labels))


def test_a_positive_and_a_negative_with_the_same_row_are_equally_far():
    for seed in range(20):
        embeddings, labels = plain_batch(rows=300, dim=33, seed=seed, dtype=torch.float32)
        embeddings[1] = embeddings[150]  # row 1 is a positive of row 0, row 150 a negative
        found = listed(sm.SemiHardMiner(2.0)(embeddings, labels))
        assert (0, 1, 150) not in found


def test_labels_that_float_would_merge_stay_apart():
    embeddings, _ = plain_batch(rows=4)
    labels = torch.tensor([2**53, 2**53 + 1, 2**53, 2**53 + 1])
    assert {t[:2] for t in listed(sm.AllMiner()(embeddings, labels))} == {(0, 2), (2, 0), (1, 3), (3, 1)}
    assert {t[:2] for t in listed(sm.BatchHardMiner()(embeddings, labels))} == {(0, 2), (2, 0), (1, 3), (3, 1)}


def test_too_many_triplets_are_refused_with_their_number():
    with pytest.raises(ValueError, match=r"has 3,024,800,000 triplets, .* GiB as a list; give miner=\"all\" to a loss"):
        sm.AllMiner()(torch.randn(4000, 2), torch.arange(4000) % 20)


@pytest.mark.parametrize("size", [512, 513, 700])
def test_a_class_wider_than_a_band_block(size):
    embeddings = torch.randn(size + 8, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = (torch.arange(size + 8) >= size).long()
    apart = torch.cdist(torch.nn.functional.normalize(embeddings), torch.nn.functional.normalize(embeddings))
    same = labels[:, None] == labels
    found = sm.BatchHardMiner()(embeddings, labels)
    assert found.anchor.tolist() == list(range(size + 8))
    assert found.positive.tolist() == apart.masked_fill(~same, -1).argmax(1).tolist()
    assert found.negative.tolist() == apart.masked_fill(same, 9).argmin(1).tolist()
    every = sm.SemiHardMiner(math.inf, fallback="farthest")(embeddings, labels)
    assert len(every.anchor) == size * (size - 1) + 8 * 7


@pytest.mark.parametrize("long", [1.0, 1e3, 1e5])
def test_one_long_row_does_not_blur_the_distances_of_the_others(long):
    embeddings, labels = plain_batch(rows=41, dtype=torch.float32)
    embeddings[40] = long
    for miner, loops in (
        (sm.HardMiner(normalize=False), reference.hard),
        (sm.BatchHardMiner(normalize=False), reference.batch_hard),
    ):
        expected = [t for t in loops(embeddings.double(), labels, normalize=False) if t[0] != 40]
        assert [t for t in listed(miner(embeddings, labels)) if t[0] != 40] == expected


def test_an_anchor_whose_farthest_positive_ties_with_itself_keeps_it():
    references = torch.tensor([[1.0, 0], [2, 0], [0, 1]])
    found = sm.BatchHardMiner()(torch.tensor([[1.0, 0]]), torch.tensor([0]), references, torch.tensor([0, 0, 1]))
    assert listed(found) == [(0, 1, 2)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("negatives", ["nearest", "all"])
def test_equal_rows_are_equally_far_whatever_the_size_of_the_last_block(dtype, negatives):
    """Rows drawn from a small pool: a negative that equals the positive is never farther than it."""
    for rows in (1, 2, 5, 9, 17, 65, 100, 257, 260, 513, 1025):
        for dim in (3, 16, 33):
            generator = torch.Generator().manual_seed(rows + dim)
            pool = torch.randn(max(rows // 6, 2), dim, generator=generator, dtype=dtype)
            drawn = torch.randint(0, len(pool), (rows,), generator=generator)
            labels = torch.randint(0, max(rows // 3, 2), (rows,), generator=generator)
            found = sm.SemiHardMiner(0.5, negatives)(pool[drawn], labels)
            assert (drawn[found.positive] != drawn[found.negative]).all(), (rows, dim)


def test_mixed_types_and_classes_on_one_side_only():
    embeddings, labels = plain_batch(dtype=torch.float16)
    references, reference_labels = plain_batch(seed=1, dtype=torch.float32)
    reference_labels = reference_labels + 3  # three classes of the batch are missing, three are new
    for miner in (sm.SemiHardMiner(1.0), sm.HardMiner(), sm.BatchHardMiner(), sm.AllMiner()):
        found = miner(embeddings, labels, references, reference_labels)
        again = miner(embeddings.double(), labels, references.double(), reference_labels)
        assert listed(found) == listed(again)
        assert set(labels[found.anchor].tolist()) <= {3, 4, 5}
        assert len(found.anchor)


@given(batches(exact=True), st.sampled_from([0.2, 1.5, math.inf]), SCRATCH)
def test_ties_in_a_batch_that_comes_class_by_class(batch, margin, scratch):
    """Equal classes in order, as samplers make them: ranks ascend, and ties are found without a second look."""
    rows = batch[0][: len(batch[0]) // 2 * 2]
    if len(rows):
        labels = torch.arange(len(rows)) // 2
        found = sm.SemiHardMiner(margin, scratch_bytes=scratch)(rows, labels)
        assert listed(found) == reference.semi_hard(rows, labels, margin=margin)
