"""Retrieval measures equal plain loops, pytorch-metric-learning and faiss, whatever the block and the order."""

import math

import numpy as np
import pytest
import reference
import torch
from batches import batches, plain_batch, with_references
from hypothesis import given
from hypothesis import strategies as st

from shadowmetric.evaluation.comparison import Sets, compare
from shadowmetric.evaluation.hits import iterate_hits
from shadowmetric.evaluation.retrieval import RETRIEVAL, retrieval

KS = (1, 2, 5, 50)
SCRATCHES = (1, 5000, 2**26)


def one_set(embeddings, labels):
    return Sets(embeddings, labels, embeddings, labels, torch.arange(len(labels)))


def measured(sets, *, measures=RETRIEVAL, ks=KS, scratch=2**26):
    return retrieval(sets, measures, ks, ks, scratch_bytes=scratch, progress=lambda share: None)


def expected(ranks):
    values = {f"recall_at_{k}": [reference.recall_at(r, k) for r in ranks] for k in KS}
    values |= {f"precision_at_{k}": [reference.precision_at(r, k) for r in ranks] for k in KS}
    values |= {f"ir_recall_at_{k}": [reference.ir_recall_at(r, k) for r in ranks] for k in KS}
    values["r_precision"] = [reference.r_precision(r) for r in ranks]
    values["map_at_r"] = [reference.map_at_r(r) for r in ranks]
    values["reciprocal_rank"] = [reference.reciprocal_rank(r) for r in ranks]
    return values


def assert_equal(found, wanted):
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        wanted_values = torch.tensor(values, dtype=torch.float64)
        torch.testing.assert_close(found[name], wanted_values, rtol=0, atol=1e-12, equal_nan=True, msg=name)


@given(batches(), st.sampled_from(SCRATCHES))
def test_leave_one_out_equals_the_loops(batch, scratch):
    embeddings, labels = batch
    wanted = expected(reference.relevant_ranks(embeddings, labels))
    assert_equal(measured(one_set(embeddings, labels), scratch=scratch), wanted)


@given(with_references(), st.sampled_from(SCRATCHES))
def test_query_against_gallery_equals_the_loops(batch, scratch):
    query, labels, gallery, gallery_labels = batch
    wanted = expected(reference.relevant_ranks(query, labels, gallery, gallery_labels))
    assert_equal(measured(Sets(query, labels, gallery, gallery_labels, None), scratch=scratch), wanted)


@pytest.mark.parametrize(("per_class", "ks"), [(1, (1,)), (3, (1, 9)), (80, (1,)), (80, (1, 3, 1000)), (200, (2,))])
def test_no_figure_depends_on_the_block(per_class, ks):
    embeddings, labels = plain_batch(200, dim=600, per_class=per_class, dtype=torch.float32)
    embeddings[100:] = embeddings[torch.randint(100, (100,), generator=torch.Generator().manual_seed(1))]  # ties
    sets = one_set(embeddings, labels)
    first, *others = (measured(sets, ks=ks, scratch=scratch) for scratch in (2**27, 2**20, 2**16))
    for other in others:
        for name, values in first.items():
            assert torch.equal(values.nan_to_num(-1), other[name].nan_to_num(-1)), name


@given(with_references(), st.integers(0, 2**20))
def test_the_order_of_gallery_and_queries_changes_nothing(batch, seed):
    query, labels, gallery, gallery_labels = batch
    generator = torch.Generator().manual_seed(seed)
    moved = torch.randperm(len(gallery), generator=generator)
    asked = torch.randperm(len(query), generator=generator)
    straight = measured(Sets(query, labels, gallery, gallery_labels, None))
    mixed = measured(Sets(query[asked], labels[asked], gallery[moved], gallery_labels[moved], None))
    for name, values in straight.items():
        assert torch.equal(values[asked].nan_to_num(-1), mixed[name].nan_to_num(-1)), name


def test_duplicates_of_another_class_come_first_wherever_they_stand():
    query, label = torch.tensor([[1.0, 0.0]]), torch.tensor([7])
    gallery = torch.tensor([[2.0, 0.0], [1.0, 0.0], [3.0, 0.0], [0.0, 1.0]])  # three in the same direction
    for labels in ([7, 1, 2, 7], [1, 7, 2, 7], [1, 2, 7, 7]):
        found = measured(Sets(query, label, gallery, torch.tensor(labels), None))
        assert found["recall_at_1"].item() == found["recall_at_2"].item() == 0.0
        assert found["reciprocal_rank"].item() == 1 / 3
        assert found["r_precision"].item() == found["map_at_r"].item() == 0.0
        assert found["precision_at_5"].item() == 2 / 5
        assert found["ir_recall_at_2"].item() == 0.0
        assert found["ir_recall_at_5"].item() == 1.0


def test_lone_queries_have_no_value_and_rank_nothing():
    embeddings, labels = plain_batch(12, per_class=4)
    labels[3] = 99
    found = measured(one_set(embeddings, labels))
    for values in found.values():
        assert values.isnan().tolist() == [row == 3 for row in range(12)]
    ((_, hits),) = iterate_hits(compare(one_set(embeddings, labels), 2**20), 99, scratch_bytes=2**26)
    assert hits.hit.shape == (12, 12)
    assert torch.equal(hits.hit.sum(1), hits.relevant)  # the query itself is no hit


def test_one_row_and_one_class():
    alone = measured(one_set(torch.randn(1, 3), torch.tensor([5])))
    assert all(math.isnan(values.item()) for values in alone.values())
    together = measured(one_set(torch.randn(6, 3), torch.zeros(6, dtype=torch.int64)))
    assert together["map_at_r"].tolist() == together["recall_at_1"].tolist() == [1.0] * 6


def test_the_reciprocal_rank_is_exact_beyond_what_the_other_measures_look_at():
    embeddings, labels = plain_batch(300, dim=5, per_class=2)
    labels = labels[torch.randperm(300, generator=torch.Generator().manual_seed(0))]
    wanted = [reference.reciprocal_rank(r) for r in reference.relevant_ranks(embeddings, labels)]
    assert sum(value < 1 / 20 for value in wanted) > 100
    for scratch in (1, 2**26):
        found = measured(
            one_set(embeddings, labels), measures=("reciprocal_rank", "recall_at"), ks=(1,), scratch=scratch
        )
        assert found["reciprocal_rank"].tolist() == wanted


def test_a_sample_of_queries_has_the_values_of_the_whole_set():
    embeddings, labels = plain_batch(60, per_class=3)
    sets, chosen = one_set(embeddings, labels), torch.tensor([3, 4, 17, 59])
    whole, some = measured(sets), measured(sets.some(chosen))
    for name, values in whole.items():
        assert torch.equal(values[chosen], some[name]), name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_precision_rows_are_the_rows_they_round_to(dtype):
    embeddings, labels = plain_batch(40, dtype=dtype)
    for name, values in measured(one_set(embeddings, labels)).items():
        assert torch.equal(values, measured(one_set(embeddings.double(), labels))[name]), name


@pytest.mark.parametrize("per_class", [3, 100])
def test_equal_to_pytorch_metric_learning(per_class):
    calculators = pytest.importorskip("pytorch_metric_learning.utils.accuracy_calculator")
    embeddings, labels = plain_batch(600, dim=16, per_class=per_class, dtype=torch.float32)
    embeddings += torch.randn(600 // per_class, 16, generator=torch.Generator().manual_seed(1))[labels]
    unit = torch.nn.functional.normalize(embeddings)
    names = ("precision_at_1", "r_precision", "mean_average_precision_at_r", "mean_reciprocal_rank")
    calculator = calculators.AccuracyCalculator(include=names, k=None, device=torch.device("cpu"))
    theirs = calculator.get_accuracy(unit, labels)
    ours = measured(one_set(embeddings, labels))
    for name, their_name in zip(("recall_at_1", "r_precision", "map_at_r", "reciprocal_rank"), names, strict=True):
        assert float(ours[name].mean()) == pytest.approx(theirs[their_name], abs=1e-6), name


def test_equal_to_faiss_neighbors():
    faiss = pytest.importorskip("faiss")
    query, labels = plain_batch(200, dim=16, per_class=10, dtype=torch.float32)
    gallery, gallery_labels = plain_batch(500, dim=16, per_class=25, seed=1, dtype=torch.float32)
    index = faiss.IndexFlatIP(16)
    index.add(torch.nn.functional.normalize(gallery).numpy())
    _, found = index.search(torch.nn.functional.normalize(query).numpy(), 50)
    hits = gallery_labels.numpy()[found] == labels.numpy()[:, None]
    ours = measured(Sets(query, labels, gallery, gallery_labels, None))
    for k in KS:
        assert float(ours[f"recall_at_{k}"].mean()) == pytest.approx(hits[:, :k].any(1).mean(), abs=1e-6)
        assert float(ours[f"precision_at_{k}"].mean()) == pytest.approx(hits[:, :k].mean(), abs=1e-6)
    precision = hits[:, :25].cumsum(1) / np.arange(1, 26) * hits[:, :25]
    assert float(ours["map_at_r"].mean()) == pytest.approx(precision.sum(1).mean() / 25, abs=1e-6)
