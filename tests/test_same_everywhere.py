"""What miners choose, and what losses are worth, is a function of rows and labels: a product that rounds at random

changes nothing (`random_rounding`), nor do blocks, the fast path of large batches, or threads. The batches are those in
which much is equal or nearly so: duplicates across classes, lattice and one-hot rows, collapsed batches, zero rows; and
random ones.
"""

import contextlib

import pytest
import reference
import torch
from every_loss import CLASSES, LOSSES, is_light
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_rows import KINDS, made_rows
from random_rounding import random_rounding

import shadowmetric as sm
from shadowmetric.mining import ways
from shadowmetric.mining.checked_batch import as_checked_batch
from shadowmetric.mining.ways import choose_way
from shadowmetric.ops import proposed_nearest

SEEDS = 3
SCRATCHES = (1, 3000, 2**25)
DTYPES = (torch.float32, torch.float64, torch.bfloat16)
MINERS = {
    "semi_hard": (sm.SemiHardMiner, {"margin": 0.5}, reference.semi_hard),
    "no upper end": (sm.SemiHardMiner, {"margin": float("inf")}, reference.semi_hard),
    "window": (sm.SemiHardMiner, {"margin": 0.5, "negatives": "all"}, reference.semi_hard),
    "fallback": (sm.SemiHardMiner, {"margin": 0.1, "fallback": "farthest"}, reference.semi_hard),
    "nearest positive": (sm.SemiHardMiner, {"margin": 0.5, "positives": "nearest"}, reference.semi_hard),
    "distance": (sm.SemiHardMiner, {"margin": 0.5, "unit": "distance"}, reference.semi_hard),
    "angle": (sm.SemiHardMiner, {"margin": 0.5, "unit": "angle"}, reference.semi_hard),
    "gap": (sm.SemiHardMiner, {"margin": 0.3, "unit": "gap"}, reference.semi_hard),
    "gap window": (sm.SemiHardMiner, {"margin": 0.3, "unit": "gap", "negatives": "all"}, reference.semi_hard),
    "hard gaps": (sm.HardMiner, {"unit": "gap"}, reference.hard),
    "batch_hard gaps": (sm.BatchHardMiner, {"unit": "gap"}, reference.batch_hard),
    "hard": (sm.HardMiner, {}, reference.hard),
    "batch_hard": (sm.BatchHardMiner, {}, reference.batch_hard),
}


def listed(triplets) -> list[tuple[int, ...]]:
    return [tuple(row) for row in torch.stack(triplets, 1).tolist()]


def made(kind: str, rows: int, dim: int, seed: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    labels = torch.randint(0, 4, (rows,), generator=torch.Generator().manual_seed(seed))
    return torch.from_numpy(made_rows(kind, rows, dim, seed)).to(dtype), labels


@contextlib.contextmanager
def proposing(always: bool):
    """Mine in class order, and let the fast product propose for batches of any size, or for none."""
    before = proposed_nearest.WORTH_PROPOSING, ways.SMALL_BATCH
    proposed_nearest.WORTH_PROPOSING, ways.SMALL_BATCH = 0 if always else 2**62, 0
    try:
        yield
    finally:
        proposed_nearest.WORTH_PROPOSING, ways.SMALL_BATCH = before


BATCHES = (
    st.sampled_from(KINDS),
    st.integers(2, 18),
    st.sampled_from([1, 2, 5, 16]),
    st.integers(0, 2**20),
    st.sampled_from(DTYPES),
)


@pytest.mark.parametrize("name", MINERS)
@given(*BATCHES, st.booleans(), st.booleans(), st.sampled_from(SCRATCHES))
def test_triplets_are_those_of_the_loops_whoever_multiplies(
    name, kind, rows, dim, seed, dtype, normalize, fast, scratch
):
    embeddings, labels = made(kind, rows, dim, seed, dtype)
    make, settings, loops = MINERS[name]
    expected = loops(embeddings, labels, normalize=normalize, **settings)
    miner = make(**settings, normalize=normalize, scratch_bytes=scratch)
    with proposing(fast):
        assert listed(miner(embeddings, labels)) == expected
        for number in range(SEEDS):
            with random_rounding(seed + number):
                assert listed(miner(embeddings, labels)) == expected


@pytest.mark.parametrize("name", [name for name in MINERS if "window" not in name])
@given(*BATCHES, st.booleans())
def test_a_matrix_gives_the_triplets_of_the_loops_whoever_multiplies(name, kind, rows, dim, seed, dtype, normalize):
    embeddings, labels = made(kind, rows, dim, seed, dtype)
    make, settings, loops = MINERS[name]
    miner, batch = make(**settings, normalize=normalize), as_checked_batch(embeddings, labels)
    assert choose_way(batch, miner) == "matrix"
    expected = loops(embeddings, labels, normalize=normalize, **settings)
    for number in range(SEEDS):
        with random_rounding(seed + number):
            assert listed(miner(embeddings, labels)) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["semi_hard", "hard", "batch_hard"])
def test_a_fast_product_of_a_large_batch_proposes_and_never_decides(kind, name):
    embeddings, labels = made(kind, 200, 24, 0, torch.float32)
    make, settings, _ = MINERS[name]
    with proposing(False):
        expected = listed(make(**settings)(embeddings, labels))
    for number in range(SEEDS):
        with proposing(True), random_rounding(number) as rounding:
            assert listed(make(**settings, scratch_bytes=(2**16, 2**18, 2**25)[number])(embeddings, labels)) == expected
        assert rounding.entries > 0


def test_references_are_searched_alike_by_both_ways():
    embeddings, labels = made("duplicates", 90, 12, 1, torch.float32)
    references, reference_labels = made("duplicates", 150, 12, 1, torch.float32)
    for name in ("semi_hard", "hard", "batch_hard"):
        make, settings, loops = MINERS[name]
        arguments = {"references": references, "reference_labels": reference_labels}
        expected = loops(embeddings[:12], labels[:12], **settings, **arguments)
        for fast in (True, False):
            with proposing(fast), random_rounding(3):
                assert listed(make(**settings)(embeddings[:12], labels[:12], *arguments.values())) == expected


def test_rows_too_close_for_the_fast_product_are_left_to_the_exact_one():
    embeddings, labels = made("near", 300, 16, 0, torch.float32)
    with proposing(True):
        search = sm.HardMiner()(embeddings, labels)
    with proposing(False):
        assert listed(search) == listed(sm.HardMiner()(embeddings, labels))


def value_and_gradient(loss, embeddings, labels):
    leaf = embeddings.clone().requires_grad_()
    value = loss(leaf, labels)
    value.backward()
    return value.detach(), leaf.grad


@pytest.mark.parametrize("name", LOSSES)
def test_no_pair_is_in_or_out_of_a_loss_by_rounding(name):
    """Values and gradients agree to what rounding a sum can do, which rows at a distance of 3e-7 magnify.

    A kink that flips would be off by a whole pair: by 1e-3 and more.
    """

    @settings(max_examples=4 if is_light(name) else 10)
    @given(*BATCHES[:4], st.sampled_from(SCRATCHES))
    @example("duplicates", 24, 5, 0, 1)
    @example("collapsed", 24, 5, 0, 1)
    def run(kind, rows, dim, seed, scratch):
        embeddings, labels = made(kind, rows, dim, seed, torch.float64)
        labels = labels % CLASSES
        torch.manual_seed(seed)
        loss = LOSSES[name](dim).double()
        value, gradient = value_and_gradient(loss, embeddings, labels)
        loss.scratch_bytes = scratch
        scale = gradient.abs().max() + 1
        for number in range(2):
            with random_rounding(seed + number):
                again, moved = value_and_gradient(loss, embeddings, labels)
            torch.testing.assert_close(again, value, rtol=1e-11, atol=1e-11)
            torch.testing.assert_close(moved / scale, gradient / scale, rtol=0, atol=1e-7)  # 2^-53 / 3e-7, times dim

    run()


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_change_no_triplet(threads):
    embeddings, labels = made("random", 900, 64, 0, torch.float32)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        found = listed(sm.SemiHardMiner(0.2)(embeddings, labels // 1))
    finally:
        torch.set_num_threads(before)
    with proposing(False):
        assert found == listed(sm.SemiHardMiner(0.2)(embeddings, labels))
