"""Verification equals the plain loops on cosines rounded to steps of 2^-19, whatever the block size."""

import dataclasses
import math

import numpy
import pytest
import reference
import torch
from batches import batches, plain_batch, with_references
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from test_memory import LargestAllocation

from shadowmetric.evaluation.verification import STEPS, Verification, _Arranged, verification
from shadowmetric.ops.exact_rows import GRID

SCRATCH = st.sampled_from([1, 3000, 2**25])
RATES = (0.0, 0.01, 0.1, 0.25, 0.5, 1.0)


def stepped(similarities: list[float]) -> list[int]:
    return [round(similarity * STEPS) for similarity in similarities]


def agrees(found: Verification, genuine: list[float], impostor: list[float]) -> None:
    """Assert that the figures are those of the loops. A cosine between two steps may go to either."""
    genuine, impostor = stepped(genuine), stepped(impostor)
    assert (found.genuine_pairs, found.impostor_pairs) == (len(genuine), len(impostor))
    ties = reference.mean([(high == low) / 2 for high in genuine for low in impostor])
    rate, threshold = reference.equal_error(genuine, impostor)
    close = {"abs": 1e-12, "nan_ok": True}
    assert found.roc_auc == pytest.approx(reference.roc_auc(genuine, impostor), **close)
    assert found.roc_auc_error == pytest.approx(ties, **close)
    assert found.equal_error_rate == pytest.approx(rate, **close)
    assert found.equal_error_threshold == pytest.approx((threshold - 0.5) / STEPS, abs=1.01 / STEPS, nan_ok=True)
    for rate, share in found.true_accepts.items():
        assert share == pytest.approx(reference.true_accepts(genuine, impostor, rate), **close)
    for rate, threshold in found.thresholds.items():
        assert threshold == pytest.approx(expected_threshold(genuine, impostor, rate), abs=1.01 / STEPS, nan_ok=True)


def expected_threshold(genuine: list[int], impostor: list[int], rate: float) -> float:
    """Half a step below the lowest accepted pair; above the highest impostor if no genuine pair can be accepted."""
    if not genuine or not impostor:
        return math.nan
    allowed = [step for step in genuine + impostor if reference.accepted(impostor, step) <= rate]
    if not allowed or min(allowed) > max(genuine):
        return (max(impostor) + 0.5) / STEPS
    return (min(allowed) - 0.5) / STEPS


@given(batches(), SCRATCH)
def test_each_two_rows_once(batch, scratch):
    found = verification(*batch, false_accept_rates=RATES, scratch_bytes=scratch)
    agrees(found, *reference.verification(*batch))


@given(with_references(), SCRATCH)
def test_every_row_with_every_row_of_the_gallery(batch, scratch):
    embeddings, labels, gallery, gallery_labels = batch
    found = verification(
        embeddings,
        labels,
        gallery=gallery,
        gallery_labels=gallery_labels,
        false_accept_rates=RATES,
        scratch_bytes=scratch,
    )
    agrees(found, *reference.verification(*batch))


@given(batches(), SCRATCH, st.data())
def test_a_sample_of_the_rows_against_all_of_them_leaves_each_row_itself_out(batch, scratch, data):
    rows, labels = batch
    own = torch.tensor(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=8)))
    known = torch.tensor(data.draw(st.lists(st.booleans(), min_size=len(own), max_size=len(own))))
    own_or_none = torch.where(known, own, -1)
    genuine, impostor = [], []
    for q, similarities in enumerate(reference.cosines(rows[own], rows)):
        for x, similarity in enumerate(similarities):
            if x != own_or_none[q]:
                (genuine if labels[x] == labels[own[q]] else impostor).append(similarity)
    found = verification(
        rows[own],
        labels[own],
        gallery=rows,
        gallery_labels=labels,
        own=own_or_none,
        false_accept_rates=RATES,
        scratch_bytes=scratch,
    )
    agrees(found, genuine, impostor)


def test_all_rows_as_their_own_sample_count_each_pair_twice():
    embeddings, labels = plain_batch(rows=90)
    once = verification(embeddings, labels)
    twice = verification(embeddings, labels, gallery=embeddings, gallery_labels=labels, own=torch.arange(90))
    expected = dataclasses.replace(
        once, genuine_pairs=2 * once.genuine_pairs, impostor_pairs=2 * once.impostor_pairs, roc_auc=twice.roc_auc
    )
    assert twice == expected
    assert twice.roc_auc == pytest.approx(once.roc_auc, abs=1e-14)


def clustered(rows: int = 400, dim: int = 24, classes: int = 20, dtype: torch.dtype = torch.float32):
    """Rows around the center of their class, as an embedder makes them."""
    generator = torch.Generator().manual_seed(3)
    labels = torch.randint(0, classes, (rows,), generator=generator)
    centers = torch.randn(classes, dim, generator=generator)
    return (centers[labels] + 1.5 * torch.randn(rows, dim, generator=generator)).to(dtype), labels


def pairs_of(embeddings, labels) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The cosine of each two rows, and whether they are of one class."""
    unit = torch.nn.functional.normalize(embeddings.double())
    left, right = torch.triu_indices(len(unit), len(unit), 1)
    return (unit[left] * unit[right]).sum(1).numpy(), (labels[left] == labels[right]).numpy()


def test_roc_auc_is_scikit_learn_s():
    batch = clustered()
    cosine, genuine = pairs_of(*batch)
    found = verification(*batch)
    assert 0.6 < found.roc_auc < 0.99
    assert found.roc_auc == pytest.approx(roc_auc_score(genuine, cosine), abs=1e-6)
    assert 0 < found.roc_auc_error < 1e-5


@pytest.mark.parametrize("rate", [0.2, 0.01, 0.001])
def test_a_threshold_does_what_it_says(rate):
    batch = clustered()
    cosine, genuine = pairs_of(*batch)
    found = verification(*batch, false_accept_rates=[rate])
    accepted = cosine >= found.thresholds[rate]
    assert accepted[genuine].mean() == pytest.approx(found.true_accepts[rate])
    assert 0.9 * rate < accepted[~genuine].mean() <= rate
    at_equal_error = cosine >= found.equal_error_threshold
    assert at_equal_error[~genuine].mean() == pytest.approx(found.equal_error_rate, abs=1e-3)
    assert (~at_equal_error[genuine]).mean() == pytest.approx(found.equal_error_rate, abs=1e-3)


def test_a_rate_below_one_impostor_admits_none():
    batch = clustered()
    cosine, genuine = pairs_of(*batch)
    impostors = (~genuine).sum()
    found = verification(*batch, false_accept_rates=[0.5 / impostors, 0.0, 1 / impostors])
    assert found.thresholds[0.5 / impostors] == found.thresholds[0.0] > cosine[~genuine].max()
    assert found.true_accepts[0.0] == (cosine[genuine] > cosine[~genuine].max()).mean() > 0
    assert (cosine[~genuine] >= found.thresholds[1 / impostors]).sum() == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dim", [3, 64, 700])  # in blocks of 8 rows BLAS sums 700 numbers in another order
def test_nothing_depends_on_the_block_size(dim, dtype):
    embeddings, labels = clustered(70, dim, 11, dtype)
    embeddings[7] = embeddings[50]
    expected = verification(embeddings, labels, scratch_bytes=2**28)
    for scratch in (1, 50_000, 400_000):
        assert verification(embeddings, labels, scratch_bytes=scratch) == expected


def test_even_cosines_between_two_steps_do_not_depend_on_the_block_size():
    generator = torch.Generator().manual_seed(5)
    query, *others = torch.linalg.qr(torch.randn(700, 301, generator=generator, dtype=torch.float64)).Q.T
    cosine = 100_000.5 / STEPS  # rounding alone would decide which step it goes to
    gallery = cosine * query + math.sqrt(1 - cosine**2) * torch.stack(others)
    queries = query * torch.linspace(1.0, 2.0, 104, dtype=torch.float64)[:, None]
    labels = {"labels": torch.zeros(104, dtype=torch.int64), "gallery_labels": torch.arange(300) % 2}
    found = [verification(queries, gallery=gallery, **labels, scratch_bytes=scratch) for scratch in (1, 2**28)]
    assert found[0] == found[1]
    assert found[0].roc_auc_error < 0.4  # it would be 0.5 if all had gone to one step


def test_every_sum_of_products_is_exact():
    embeddings, labels = clustered(40, 700, 4)
    scale = STEPS / GRID**2
    left = _Arranged(embeddings, labels, tail=STEPS + 1.5, scale=float(STEPS)).load(0, 40)
    right = _Arranged(embeddings, labels, tail=1.0).load(0, 40)
    whole = (left * GRID / STEPS).long() @ (right * GRID).long().T
    assert torch.equal((left @ right.T / scale).long(), whole)


def test_nothing_depends_on_the_order_of_the_rows_or_the_names_of_the_classes():
    embeddings, labels = clustered(150, 700, 11)
    order = torch.randperm(150, generator=torch.Generator().manual_seed(0))
    assert verification(embeddings[order], 2**62 - labels[order]) == verification(embeddings, labels)


@pytest.mark.parametrize("scratch", [1, 2**25])
def test_more_rows_than_one_block(scratch):
    embeddings, labels = clustered(64 if scratch == 1 else 2000, 5)
    cosine, genuine = pairs_of(embeddings, labels)
    found = verification(embeddings, labels, scratch_bytes=scratch)
    assert (found.genuine_pairs, found.impostor_pairs) == (genuine.sum(), (~genuine).sum())
    assert found.roc_auc == pytest.approx(roc_auc_score(genuine, cosine), abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_narrow_types_are_compared_as_what_they_hold(dtype):
    embeddings, labels = clustered(dtype=dtype)
    assert verification(embeddings, labels) == verification(embeddings.double(), labels)


def test_two_types_meet():
    embeddings, labels = clustered(dtype=torch.float16)
    mixed = verification(embeddings, labels, gallery=embeddings.double(), gallery_labels=labels)
    assert mixed == verification(embeddings, labels, gallery=embeddings, gallery_labels=labels)


@pytest.mark.parametrize(
    ("labels", "pairs"),
    [([5], (0, 0)), ([5, 5, 5], (3, 0)), ([1, 2, 3], (0, 3))],
    ids=["one row", "one class", "all singletons"],
)
def test_without_both_kinds_of_pairs_there_are_counts_only(labels, pairs):
    found = verification(torch.randn(len(labels), 4), torch.tensor(labels), false_accept_rates=[0.1])
    assert (found.genuine_pairs, found.impostor_pairs) == pairs
    figures = [found.roc_auc, found.roc_auc_error, found.equal_error_rate, found.equal_error_threshold]
    assert all(math.isnan(figure) for figure in [*figures, found.true_accepts[0.1], found.thresholds[0.1]])


def test_equal_rows_cannot_be_told_apart():
    found = verification(torch.full((9, 7), 0.3), torch.arange(9) // 3, false_accept_rates=[0.5, 1.0])
    assert found.roc_auc == found.roc_auc_error == found.equal_error_rate == 0.5
    assert found.true_accepts == {0.5: 0.0, 1.0: 1.0}
    assert found.thresholds[0.5] > 1.0 > found.thresholds[1.0] > 1 - 2 / STEPS


def test_separate_classes_are_told_apart_and_opposed_ones_never():
    embeddings = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    apart = verification(embeddings, torch.tensor([0, 0, 1, 1]))
    assert (apart.roc_auc, apart.roc_auc_error, apart.equal_error_rate) == (1.0, 0.0, 0.0)
    assert set(apart.true_accepts.values()) == {1.0}
    assert 1 - 1 / STEPS < apart.equal_error_threshold < 1.0
    opposed = verification(embeddings, torch.tensor([0, 1, 1, 0]), false_accept_rates=[0.0, 0.6])
    assert opposed.roc_auc == 0.25  # each genuine cosine is 0, and half of the impostors' are 1
    assert opposed.true_accepts == {0.0: 0.0, 0.6: 0.0}
    assert opposed.thresholds == {0.0: 1 + 0.5 / STEPS, 0.6: 1 + 0.5 / STEPS}


def test_labels_are_never_floats():
    embeddings = torch.eye(4)
    found = verification(embeddings, torch.tensor([2**53, 2**53 + 1, -(2**63), 2**63 - 1]))
    assert (found.genuine_pairs, found.impostor_pairs) == (0, 6)
    assert verification(embeddings, torch.full((4,), 2**63 - 1)).genuine_pairs == 6


def test_a_zero_row_is_orthogonal_to_everything():
    embeddings = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0], [1.0, -1.0]])
    found = verification(embeddings, torch.tensor([0, 0, 1, 2]), false_accept_rates=[1.0])
    assert found.roc_auc == 0.5
    assert found.thresholds[1.0] == -0.5 / STEPS


def test_progress_rises_to_one():
    told = []
    verification(*plain_batch(rows=100), scratch_bytes=20_000, progress=told.append)
    assert len(told) >= 10
    assert told == sorted(set(told))
    assert told[-1] == 1.0


def test_a_file_on_disk_is_never_copied_whole(tmp_path):
    embeddings, labels = clustered(120, 45_000)
    stored = numpy.memmap(tmp_path / "rows", dtype="float32", mode="w+", shape=embeddings.shape)
    stored[:] = embeddings.numpy()
    on_disk = torch.from_numpy(stored)
    some = {"embeddings": embeddings[:8], "labels": labels[:8], "gallery_labels": labels}
    with LargestAllocation([embeddings, on_disk]) as seen:
        found = verification(gallery=on_disk, scratch_bytes=2**24, **some)
    assert found == verification(gallery=embeddings, **some)
    assert seen.largest <= 17 * 2**20, seen.where  # the histograms; the rows are 21 MB


ROWS, LABELS = torch.randn(5, 3), torch.tensor([0, 0, 1, 1, 2])
GALLERY = {"gallery": ROWS, "gallery_labels": LABELS}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"gallery": ROWS}, "gallery was given without gallery_labels"),
        ({"gallery_labels": LABELS}, "gallery_labels was given without gallery"),
        ({"own": torch.arange(5)}, "own was given without a gallery"),
        ({**GALLERY, "own": torch.arange(4)}, r"own has shape \(4,\) for 5 rows"),
        ({**GALLERY, "own": torch.arange(5.0)}, "own is torch.float32"),
        ({**GALLERY, "own": torch.arange(5) + 1}, "own names row 5; the gallery's rows are 0 to 4"),
        ({**GALLERY, "own": torch.arange(5) - 2}, "own names row -2"),
        ({"gallery": torch.randn(5, 4), "gallery_labels": LABELS}, "gallery has rows of 4 numbers"),
        ({"gallery": ROWS, "gallery_labels": LABELS[:2]}, "gallery_labels has shape"),
        ({"gallery": ROWS / 0, "gallery_labels": LABELS}, "gallery has NaN or infinity in 5 of"),
        ({"false_accept_rates": [0.1, 1.5]}, "a false accept rate is 1.5"),
        ({"false_accept_rates": [math.nan]}, "a false accept rate is nan"),
        ({"scratch_bytes": 0}, "scratch_bytes is 0"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        verification(ROWS, LABELS, **settings)


@pytest.mark.parametrize("dim", [768, 2048])
def test_rows_that_rounding_makes_longer_than_one_lose_no_pair(dim):
    codes = torch.sign(torch.randn(10, dim, generator=torch.Generator().manual_seed(0)))
    rows = torch.cat([codes, codes, -codes])  # duplicates and opposites
    found = verification(rows, torch.arange(30) % 10)
    assert (found.genuine_pairs, found.impostor_pairs) == (30, 405)
    apart = verification(rows, torch.arange(30))
    assert (apart.genuine_pairs, apart.impostor_pairs) == (0, 435)
