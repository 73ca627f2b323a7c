"""The memory contract: no loss and no miner takes more than its own formula says, by exact counts of live tensors.

Kept and peak are counted (`live_bytes.py`), not estimated from resident memory. A formula must hold at every
size, and where neither the scratch nor the gathered rows dominate it must not be loose: at most twice what is taken.
"""

from dataclasses import fields, replace

import pytest
import torch
from every_loss import CENTERS, ENTRIES, maker
from torch import nn

import shadowmetric as sm
from benchmarks.memory.live_bytes import LiveBytes, count_live_bytes
from shadowmetric.losses.catalogue import LOSSES as CATALOGUE
from shadowmetric.losses.catalogue import build_loss
from shadowmetric.losses.proxies import ProxyLoss
from shadowmetric.mining.classes import positive_pairs
from shadowmetric.ops.memory import Bytes, Cost, Sizes

MIB = 2**20
WIDE_WINDOW = 8.0  # every pair finds a negative: as many triplets as there can be

LOSSES = {
    "shadow": lambda dim, classes, **s: sm.ShadowLoss(miner=sm.SemiHardMiner(WIDE_WINDOW, **s), **s),
    "shadow_hard": lambda dim, classes, **s: sm.ShadowLoss(miner="hard", **s),
    "shadow_free_rows": lambda dim, classes, **s: sm.ShadowLoss(miner="hard", normalize=False, **s),
    "shadow_batch_hard": lambda dim, classes, **s: sm.ShadowLoss(miner="batch_hard", **s),
    "shadow_all": lambda dim, classes, **s: sm.ShadowLoss(miner="all", **s),
    "shadow_window": lambda dim, classes, **s: sm.ShadowLoss(miner=sm.SemiHardMiner(0.2, "all", **s), **s),
    "shadow_random": lambda dim, classes, **s: sm.ShadowLoss(miner=sm.SemiHardMiner(WIDE_WINDOW, "random", **s), **s),
    "triplet": lambda dim, classes, **s: sm.TripletLoss(miner=sm.SemiHardMiner(WIDE_WINDOW, **s), **s),
    "triplet_euclidean": lambda dim, classes, **s: sm.TripletLoss(miner="hard", squared=False, **s),
    "soft_margin_triplet": lambda dim, classes, **s: sm.SoftMarginTripletLoss(miner="hard", **s),
    "angular_triplet": lambda dim, classes, **s: sm.AngularTripletLoss(miner="hard", **s),
    **{name: maker(entry, {}, of_centers=name in CENTERS) for name, entry in ENTRIES.items()},
}
MINERS = {
    "hard_miner": lambda dim, classes, **s: sm.HardMiner(**s),
    "batch_hard_miner": lambda dim, classes, **s: sm.BatchHardMiner(**s),
    "semi_hard_miner": lambda dim, classes, **s: sm.SemiHardMiner(WIDE_WINDOW, **s),
    "semi_hard_farthest": lambda dim, classes, **s: sm.SemiHardMiner(0.01, fallback="farthest", **s),
    "semi_hard_one_positive": lambda dim, classes, **s: sm.SemiHardMiner(WIDE_WINDOW, positives="nearest", **s),
    "semi_hard_random": lambda dim, classes, **s: sm.SemiHardMiner(WIDE_WINDOW, "random", **s),
    "semi_hard_random_farthest": lambda dim, classes, **s: sm.SemiHardMiner(0.01, "random", fallback="farthest", **s),
    "semi_hard_all": lambda dim, classes, **s: sm.SemiHardMiner(0.2, "all", **s),
    "distance_weighted_miner": lambda dim, classes, **s: sm.DistanceWeightedMiner(**s),
    "all_miner": lambda dim, classes, **s: sm.AllMiner(),
}
SUBJECTS = LOSSES | MINERS
CASES = {  # rows, dim, classes, scratch
    "fives": (150, 64, "fives", MIB),
    "wide": (90, 512, "fives", MIB),
    "two": (50, 8, "two", MIB),
    "ragged": (80, 8, "ragged", MIB),
    "singles": (100, 8, "singles", MIB),
    "roomy": (150, 64, "fives", 8 * MIB),
    "thin": (64, 16, "fives", 2**13),  # the thinnest block of whole rows is more than the scratch
}


def batch(rows, dim, classes, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    labels = {
        "fives": torch.arange(rows) // 5,
        "two": torch.arange(rows) % 2,
        "ragged": (torch.rand(rows, generator=generator).square() * rows / 8).long(),
        "singles": torch.arange(rows),
    }[classes][torch.randperm(rows, generator=generator)]
    return torch.randn(rows, dim, generator=generator).to(dtype), labels


def taken(subject, embeddings, labels, references=None, reference_labels=None):
    """Return what the subject takes, and the sizes of the batch."""
    given = [embeddings, labels]
    against = {}
    if references is not None:
        against = {"references": references, "reference_labels": reference_labels}
        given += against.values()
    if isinstance(subject, nn.Module):
        given += subject.parameters()
        for rows in (embeddings, references):
            if rows is not None:
                rows.requires_grad_()
    found = []

    def step():
        found.append(subject(embeddings, labels, **against))
        return found[0] if isinstance(subject, nn.Module) else None

    count = count_live_bytes(step, given)
    sizes = Sizes(
        *embeddings.shape,
        positive_pairs(labels, reference_labels),
        triplets=0 if isinstance(subject, nn.Module) else len(found[0].anchor),
        references=None if references is None else len(references),
        centers=len(subject.centers) if isinstance(subject, ProxyLoss) else 0,
    )
    return count, sizes


def assert_within(cost, count, sizes):
    assert count.peak <= cost.peak(sizes), (
        f"{count.peak:,} bytes at {count.where}, {cost.peak(sizes):,} promised: {cost}"
    )
    assert count.kept <= cost.kept.at(sizes), f"{count.kept:,} bytes kept, promised {cost.kept}"


def build(name, embeddings, labels, scratch, subjects=SUBJECTS):
    subject = subjects[name](embeddings.shape[1], int(labels.max()) + 1, scratch_bytes=scratch)
    return subject.double() if embeddings.dtype == torch.float64 and isinstance(subject, nn.Module) else subject


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", SUBJECTS)
def test_nothing_takes_more_than_its_formula_says(name, case):
    rows, dim, classes, scratch = CASES[case]
    embeddings, labels = batch(rows, dim, classes)
    subject = build(name, embeddings, labels, scratch)
    assert_within(subject.memory(), *taken(subject, embeddings, labels))


@pytest.mark.parametrize(("case", "dtype"), [("wide", torch.float64), ("thin", torch.float16)])
@pytest.mark.parametrize("name", SUBJECTS)
def test_formulas_know_the_type_of_the_embeddings(name, case, dtype):
    rows, dim, classes, scratch = CASES[case]
    embeddings, labels = batch(rows, dim, classes, dtype)
    subject = build(name, embeddings, labels, scratch)
    assert_within(subject.memory(dtype), *taken(subject, embeddings, labels))


@pytest.mark.parametrize("case", ["wide", "thin"])
@pytest.mark.parametrize("name", SUBJECTS)
def test_formulas_know_references(name, case):
    rows, dim, classes, scratch = CASES[case]
    references, reference_labels = batch(rows, dim, classes)
    embeddings, labels = (tensor[: rows // 3].clone() for tensor in batch(rows, dim, classes))
    subject = build(name, references, reference_labels, scratch)
    cost = subject.memory(references=True)
    assert_within(cost, *taken(subject, embeddings, labels, references, reference_labels))


@pytest.mark.parametrize("name", LOSSES)
def test_a_formula_is_at_most_twice_what_is_taken_where_gradients_dominate(name):
    embeddings, labels = batch(40, 4096, "fives")
    subject = build(name, embeddings, labels, 2**16)
    count, sizes = taken(subject, embeddings, labels)
    assert subject.memory().peak(sizes) <= 2 * count.peak


@pytest.mark.parametrize("name", sorted(set(MINERS) - {"batch_hard_miner", "semi_hard_one_positive"}))
def test_a_formula_is_at_most_twice_what_is_taken_where_pairs_dominate(name):
    """The other two make a triplet a row: with rows enough for those to count, a search takes long."""
    embeddings, labels = batch(80, 8, "two")
    subject = build(name, embeddings, labels, 2**12)
    count, sizes = taken(subject, embeddings, labels)
    assert subject.memory().peak(sizes) <= 2 * count.peak


@pytest.mark.parametrize("name", LOSSES)
def test_what_is_kept_has_no_term_with_the_dimension(name):
    kept = LOSSES[name](8, 4).memory().kept
    assert all(getattr(kept, field.name) == 0 for field in fields(kept) if field.name.endswith("number"))


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_loss_of_the_catalogue_states_its_bytes(name):
    cost = build_loss(name, margin=0.2, miner="semi_hard", classes=4, dim=8).memory()
    assert "MiB" in str(cost)
    assert cost.peak(Sizes(100, 8, 400)) > cost.kept.at(Sizes(100, 8, 400)) > 0


def test_a_foreign_miner_states_none():
    loss = sm.ShadowLoss(miner=lambda *batch: sm.HardMiner()(*batch))
    with pytest.raises(ValueError, match="does not say what it takes"):
        loss.memory()


def halved(cost: Cost) -> Cost:
    def half(part: Bytes) -> Bytes:
        numbers = [field.name for field in fields(part) if field.name != "columns"]
        return replace(part, **{name: getattr(part, name) / 2 for name in numbers})

    return Cost(half(cost.kept), tuple(half(phase) for phase in cost.phases))


@pytest.mark.parametrize("name", LOSSES)
def test_half_a_formula_is_exceeded(name):
    embeddings, labels = batch(40, 4096, "fives")
    subject = build(name, embeddings, labels, 2**16)
    with pytest.raises(AssertionError, match="promised"):
        assert_within(halved(subject.memory()), *taken(subject, embeddings, labels))


@pytest.mark.parametrize("name", ["shadow_hard", "multi_similarity"])
def test_a_square_temporary_is_caught(name, monkeypatch):
    embeddings, labels = batch(2000, 8, "fives")
    subject = build(name, embeddings, labels, MIB)
    forward = subject.forward
    monkeypatch.setattr(subject, "forward", lambda e, y: forward(e, y) + 0 * (e @ e.T).sum())
    with pytest.raises(AssertionError, match="promised"):
        assert_within(subject.memory(), *taken(subject, embeddings, labels))


def test_the_counter_forgets_what_is_freed_and_knows_the_inputs():
    known = torch.ones(1000)
    with LiveBytes([known]) as live:
        first = known + 1
        assert live.now == 4000
        del first
        second = known.view(10, 100) * 2
        assert (live.now, live.peak) == (4000, 4000)
        assert second.shape == (10, 100)


def test_a_formula_reads_as_one():
    assert str(sm.HardMiner(scratch_bytes=MIB).memory().phases[1]) == "292.6 KiB + 304 S + 64 P + 4 S D"
    assert str(sm.ContrastiveLoss().memory()) == (
        "the largest of max(32 MiB, 448 S) + 64 S + 8 S D; 48 S + 16 S D; 2 MiB + 16 S + 4 S D"
    )
    assert str(sm.ContrastiveLoss().memory().kept) == "16 KiB"
