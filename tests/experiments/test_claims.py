"""Verdicts follow the records: another figure, another verdict."""

import pytest

from shadowmetric.experiments.claims import CLAIMS, FAILS, HOLDS, ONLY_IF, UNTESTABLE
from shadowmetric.experiments.records import Record
from tests.experiments.made_records import like_the_paper, made_record

BEDS = (
    "cifar10",
    "fashion_mnist",
    "mnist",
    "cifar100",
    "tiny_imagenet",
    "cub200",
    "ham10000",
    "odir5k",
    "cars196",
    "sop",
)


def records(**how):
    found = {bed: made_record(bed, **like_the_paper(**how)) for bed in BEDS}
    for name in ("resnet18", "vgg16"):
        found[f"cifar10-{name}"] = made_record("cifar10", bed=f"cifar10-{name}", **like_the_paper(**how))
    both = like_the_paper(**how)
    found["cub200"] = made_record("cub200", **both, soft_triple=both["triplet"], multi_similarity=both["triplet"])
    found["cifar10-penalty"] = made_record("cifar10", **both)
    return found


def verdict(part, given):
    (claim,) = [claim for claim in CLAIMS if part in claim.words]
    return claim.judge(given)


TRAINED = (
    "CUB-200: Recall@1 6.41",
    "SoftTriple",
    "CIFAR-10: Recall@1",
    "CIFAR-10: silhouette",
    "Fashion-MNIST",
    "MNIST: acc",
)
TRAINED = (
    *TRAINED,
    "CIFAR-100",
    "Tiny-ImageNet",
    "HAM10000",
    "ODIR-5K",
    "Higher silhouette",
    "any backbone",
    "1.5 to 2",
)


@pytest.mark.parametrize("part", [part for part in TRAINED if part != "MNIST: acc"])
def test_a_gain_beyond_the_noise_holds_and_one_inside_it_does_not(part):
    assert verdict(part, records()).verdict == HOLDS
    if part != "1.5 to 2":
        noisy = verdict(part, records(gain=0.001, noise=0.1) | mixed())
        assert noisy.verdict == FAILS
    assert verdict(part, {}).verdict == UNTESTABLE


def mixed():
    """Return records in which seeds disagree."""
    figures = ("recall_at_1", "accuracy", "macro_f1", "silhouette")
    first = {figure: [0.5, 0.6, 0.4] for figure in figures}
    second = {figure: [0.6, 0.4, 0.5] for figure in figures}
    both = {"shadow": first, "triplet": second, "soft_triple": second, "multi_similarity": second}
    return {bed: made_record(bed, **both) for bed in (*BEDS, "cifar10-resnet18")}


def test_the_evidence_has_the_interval_the_papers_figure_and_the_command():
    found = verdict("CIFAR-10: Recall@1", mixed())
    assert "The paper: +0.29." in found.evidence
    assert "3 seeds, inside the noise, which is wide enough to hold the paper's as well" in found.evidence
    assert found.command == "`shadowmetric reproduce made-up`"
    clear = verdict("CIFAR-10: Recall@1", records())
    assert "Ours: +5.00" in clear.evidence
    assert "twice the margin" in clear.evidence


def test_equal_plateaus_are_no_faster():
    given = records()
    for record in given.values():
        for run in record.runs:
            run["figures"]["convergence_epoch"] = 3.0
    assert verdict("1.5 to 2", given).verdict == FAILS


def test_collapse_is_judged_by_what_the_penalty_does():
    given = records()
    assert verdict("price on length", given).verdict == FAILS  # neither variance falls
    for run in given["cifar10-penalty"].runs:
        if run["name"] == "triplet":
            run["figures"]["mean_variance"] = 0.01
    assert verdict("price on length", given).verdict == HOLDS


def memory_record(step=100.0, ours=10):
    losses = {"shadow": ours, "triplet": ours, "shadow_rows": 3000, "triplet_rows": 2000}
    kept = [{"loss": loss, "dim": dim, "bytes": size} for loss, size in losses.items() for dim in (64, 128, 4096)]
    peaks = [
        {"loss": loss, "dim": dim, "bytes": [int(1e6 * (step if loss == "shadow" else 100))]}
        for loss in losses
        for dim in (64, 128)
    ]
    setting = {"backbone": "googlenet", "size": 224, "batch": 32}
    facts = {"command": "shadowmetric reproduce memory", "scale": "small"}
    return Record(facts, [], {"loss_kept": kept, "step_peak": peaks, "setting": setting})


def test_memory_is_judged_by_bytes():
    given = {"memory": memory_record()}
    assert verdict("O(S) instead", given).verdict.startswith(ONLY_IF)
    assert verdict("26 %", given).verdict == FAILS
    assert verdict("26 %", {"memory": memory_record(step=74.0)}).verdict == HOLDS
    assert "2,000" in verdict("only projections", given).evidence


def test_every_claim_can_be_judged_with_nothing_and_with_everything():
    given = records() | {"memory": memory_record()}
    assert len(CLAIMS) >= 20
    for claim in CLAIMS:
        for some in ({}, given):
            found = claim.judge(some)
            assert found.verdict.startswith((HOLDS, ONLY_IF, FAILS, UNTESTABLE))
            assert found.evidence.endswith(".")
            assert found.command or found.verdict == UNTESTABLE
