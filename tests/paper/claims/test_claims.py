"""Verdicts follow the records: another figure, another verdict, and none where nothing can be known."""

import pytest
from made_records import made_record

from paper.beside import Difference, interval
from paper.claims.claims import CLAIMS
from paper.claims.judges import FAILS, HOLDS, ONLY_IF, UNTESTABLE, beats_floors, gain, judge_difference
from paper.record import Record

SILHOUETTES = ("head-cifar10", "fashion_mnist", "head-cub200")
FIGURES = ("recall_at_1", "accuracy", "macro_f1", "silhouette")
OTHERS = ("triplet", "soft_margin_triplet", "angular_triplet", "soft_triple", "multi_similarity")
GAINS = {  # a part of a claim's words -> the bed that decides it
    "CUB-200: Recall@1 6.41": "head-cub200",
    "SoftTriple's": "head-cub200",
    "Multi-Similarity's": "head-cub200",
    "CIFAR-10: Recall@1": "head-cifar10",
    "MNIST: accuracy 2.0": "mnist",
    "CIFAR-100: accuracy": "head-cifar100",
    "Tiny-ImageNet": "head-tiny_imagenet",
    "HAM10000": "head-ham10000",
    "ODIR-5K": "head-odir5k",
}


def record(data, gains, floor=-9.0, **more):
    """Return a record in which Shadow is above every other loss by these gains, one a seed."""
    seeds = range(len(gains))
    middle = [0.5 + 0.01 * seed for seed in seeds]
    shadow = {figure: [value + one for value, one in zip(middle, gains, strict=True)] for figure in FIGURES}
    other = {figure: middle for figure in FIGURES}
    floors = {"untrained": {figure: [floor] * len(gains) for figure in FIGURES}}
    losses = {"shadow": shadow} | {name: other for name in OTHERS} | floors
    return made_record(data.removeprefix("head-"), **(losses | more))


def verdict(part, given):
    (claim,) = [claim for claim in CLAIMS if part in claim.words]
    return claim.judge(given)


@pytest.mark.parametrize(
    ("values", "stated", "wanted"),
    [
        ([0.10, 0.11, 0.12], 0.106, HOLDS),
        ([0.20, 0.21, 0.22], 0.106, HOLDS),  # more than stated
        ([0.010, 0.011, 0.012], 0.106, f"{ONLY_IF} a smaller gain counts"),
        ([0.010, -0.010, 0.000], 0.106, FAILS),
        ([-0.10, -0.11, -0.12], 0.106, FAILS),
        ([0.10, -0.05, 0.20], 0.106, UNTESTABLE),  # holds 0 and the stated gain
        ([0.11], 0.106, UNTESTABLE),
        ([0.010, 0.011, 0.012], None, HOLDS),
        ([0.010, -0.010, 0.000], None, UNTESTABLE),
        ([-0.010, -0.011, -0.012], None, FAILS),
    ],
)
def test_a_verdict_follows_the_interval(values, stated, wanted):
    assert judge_difference(interval(values), stated) == wanted


def test_an_interval_that_touches_zero_lies_not_above_it():
    assert judge_difference(Difference(0.1, 0.0, 0.2, 3), 0.05) == UNTESTABLE


@pytest.mark.parametrize(("part", "bed"), GAINS.items())
def test_each_gain_is_judged_by_its_bed(part, bed):
    assert verdict(part, {bed: record(bed, [0.2, 0.201, 0.202])}).verdict == HOLDS
    assert verdict(part, {bed: record(bed, [0.0010, 0.0011, 0.0012])}).verdict.startswith(ONLY_IF)
    assert verdict(part, {bed: record(bed, [-0.2, -0.201, -0.202])}).verdict == FAILS
    assert verdict(part, {bed: record(bed, [0.3, -0.3, 0.0])}).verdict == UNTESTABLE
    assert verdict(part, {bed: record(bed, [0.2])}).verdict == UNTESTABLE
    assert verdict(part, {}).verdict == UNTESTABLE


def test_what_learned_nothing_is_not_judged():
    poor = record("mnist", [-0.2, -0.201, -0.202], floor=0.9)
    assert not beats_floors(poor, "accuracy", "shadow")
    found = verdict("MNIST: accuracy 2.0", {"mnist": poor})
    assert found.verdict == UNTESTABLE
    assert "Nothing to compare: shadow, triplet not above the untrained embedder." in found.evidence
    lame = {"soft_triple": {figure: [-9.0, -9.1, -8.9] for figure in FIGURES}}
    given = {"head-cub200": record("cub200", [0.2, 0.201, 0.202], **lame)}
    assert verdict("SoftTriple's", given).verdict == UNTESTABLE  # to beat what learned nothing is no gain
    assert "compare: soft_triple not above the untrained embedder." in verdict("SoftTriple's", given).evidence
    assert verdict("Multi-Similarity's", given).verdict == HOLDS


def test_the_evidence_has_the_papers_figure_ours_and_what_is_weak():
    found = verdict("CIFAR-10: Recall@1", {"head-cifar10": record("cifar10", [0.3, -0.3, 0.0])})
    assert found.evidence.startswith("The paper: +0.29. Ours: +0.00 (−74.52 to +74.52), 3 seeds: undecided")
    assert found.command == "`python -m paper made-up`"
    pixels = {"raw_pixels": {figure: [0.9, 0.9, 0.9] for figure in FIGURES}}
    found = verdict("CIFAR-10: Recall@1", {"head-cifar10": record("cifar10", [-0.2, -0.201, -0.202], **pixels)})
    assert "Nothing to compare: shadow, triplet not above raw pixels." in found.evidence
    assert found.verdict == UNTESTABLE


def test_a_floor_without_seeds_counts_for_all_of_them():
    below, above = ({"features": {figure: [value] for figure in FIGURES}} for value in (0.1, 0.9))
    gains = [-0.2, -0.201, -0.202]
    assert verdict("MNIST: accuracy 2.0", {"mnist": record("mnist", gains, **below)}).verdict == FAILS
    found = verdict("MNIST: accuracy 2.0", {"mnist": record("mnist", gains, **above)})
    assert "Nothing to compare: shadow, triplet not above the pooled features." in found.evidence


def test_a_verdict_carries_its_number_and_the_differences_behind_it():
    found = verdict("MNIST: accuracy 2.0", {"mnist": record("mnist", [0.25, 0.125, 0.1875])})
    assert found.number.startswith("+18.75 (")
    assert found.differences["mnist"] == pytest.approx([0.25, 0.125, 0.1875])
    assert found.figure == "accuracy"


@pytest.mark.parametrize(
    ("part", "beds"),
    [
        ("Higher silhouettes", SILHOUETTES),
        ("above Soft-margin", SILHOUETTES),
        ("above Angular", SILHOUETTES),
        ("with any backbone", ("cifar10-resnet18", "cifar10-vgg16", "cifar10-small_cnn")),
    ],
)
def test_a_claim_of_every_dataset_needs_every_dataset(part, beds):
    good = {bed: record(bed, [0.2, 0.201, 0.202]) for bed in beds}
    assert verdict(part, good).verdict == HOLDS
    assert verdict(part, {beds[0]: good[beds[0]]}).verdict == UNTESTABLE
    assert verdict(part, good | {beds[1]: record(beds[1], [-0.2, -0.201, -0.202])}).verdict == FAILS
    assert verdict(part, good | {beds[1]: record(beds[1], [-0.2, -0.201, -0.202], floor=0.9)}).verdict == UNTESTABLE
    assert verdict(part, {}).verdict == UNTESTABLE


def plateaus(shadow, triplet, epochs=20):
    figures = {"recall_at_1": [0.5, 0.51, 0.52], "epochs": [epochs] * 3}
    losses = {
        name: figures | {"convergence_epoch": found} for name, found in (("shadow", shadow), ("triplet", triplet))
    }
    return {"head-cifar10": made_record("cifar10", **losses)}


@pytest.mark.parametrize(
    ("shadow", "triplet", "wanted"),
    [
        ([5, 6, 7], [10, 12, 14], HOLDS),
        ([5, 6, 7], [5, 6, 7], FAILS),
        ([10, 12, 14], [5, 6, 7], FAILS),
        ([2, 9, 4], [9, 3, 5], UNTESTABLE),  # anything may be
        ([10, 10, 10], [20, 20, 20], UNTESTABLE),  # half of the runs still rise in their last epoch
    ],
)
def test_plateaus(shadow, triplet, wanted):
    found = verdict("1.5 to 2", plateaus(shadow, triplet))
    assert found.verdict == wanted
    assert "Triplet's over Shadow's" in found.evidence


def test_gradients_are_judged_by_their_ratio():
    def given(mine):
        return {"cub200": made_record("cub200", shadow={"anchor_gradient": [mine]}, triplet={"anchor_gradient": [1.0]})}

    assert verdict("2.53", given(0.5)).verdict == FAILS
    assert "cub200 0.50" in verdict("2.53", given(0.5)).evidence
    assert verdict("2.53", given(2.5)).verdict == HOLDS
    assert verdict("2.53", {}).verdict == FAILS  # by algebra


def collapse(triplet=0.01, seeds=3):
    def one(shadow, triplet):
        figures = {
            name: {"mean_variance": [value] * seeds, "accuracy": [0.5] * seeds}
            for name, value in (("shadow", shadow), ("triplet", triplet))
        }
        return made_record("cifar10", **figures)

    return {"cifar10": one(0.01, 0.01), "cifar10-penalty": one(0.01, triplet)}


def test_collapse_is_judged_by_what_the_penalty_does():
    assert verdict("price on length", collapse()).verdict == FAILS  # neither variance falls
    assert verdict("price on length", collapse(triplet=0.001)).verdict == HOLDS
    partial = collapse() | {"cifar10-penalty": made_record("cifar10", shadow={"mean_variance": [0.01]})}
    assert verdict("price on length", partial).verdict == UNTESTABLE
    assert "nan" not in verdict("price on length", collapse()).evidence


def memory_record(step=100.0, ours=(10, 10)):
    losses = {"shadow": ours, "triplet": ours, "shadow_rows": (3000, 9000), "triplet_rows": (2000, 7000)}
    kept = [
        {"loss": loss, "dim": dim, "bytes": sizes[dim == 4096]}
        for loss, sizes in losses.items()
        for dim in (64, 128, 4096)
    ]
    peaks = [
        {"loss": loss, "dim": dim, "bytes": [int(1e6 * (step if loss == "shadow" else 100))]}
        for loss in losses
        for dim in (64, 128)
    ]
    setting = {"backbone": "googlenet", "size": 224, "batch": 32}
    facts = {"command": "python -m paper memory", "scale": "small"}
    return Record(facts, [], {"loss_kept": kept, "step_peak": peaks, "setting": setting})


def test_memory_is_judged_by_bytes():
    given = {"memory": memory_record()}
    assert verdict("O(S) instead", given).verdict.startswith(ONLY_IF)
    assert verdict("O(S) instead", {"memory": memory_record(ours=(10, 640))}).verdict == FAILS
    assert verdict("only projections", given).verdict == FAILS
    assert verdict("only projections", {"memory": memory_record(ours=(10, 640))}).verdict == HOLDS
    assert verdict("26 %", given).verdict == FAILS
    assert "No loss keeps more than 3 kB" in verdict("26 %", given).evidence
    assert verdict("26 %", {"memory": memory_record(step=74.0)}).verdict == HOLDS


def test_every_claim_can_be_judged_with_nothing_and_with_everything():
    given = {bed: record(bed, [0.2, 0.201, 0.202]) for bed in (*GAINS.values(), *SILHOUETTES)}
    given |= {"memory": memory_record()} | collapse()
    assert len(CLAIMS) >= 20
    for claim in CLAIMS:
        for some in ({}, given):
            found = claim.judge(some)
            assert found.verdict.startswith((HOLDS, ONLY_IF, FAILS, UNTESTABLE))
            assert found.evidence.endswith(".")
            assert found.command or found.verdict == UNTESTABLE


def test_another_loss_may_be_named():
    given = {"cub200": record("cub200", [0.2, 0.201, 0.202])}
    assert gain("cub200", "fine-grained", "recall_at_1", "soft_triple")(given).verdict == HOLDS
    assert gain("cub200", "fine-grained", "recall_at_1", "contrastive")(given).verdict == UNTESTABLE
