"""Evaluation with relations equals plain loops and scikit-learn, whatever the block and the order of the gallery."""

import math

import numpy as np
import pytest
import reference
import torch
from batches import exact_rows, plain_batch, random_rows
from hypothesis import given
from hypothesis import strategies as st
from relations import both, parts, relations
from sklearn.metrics import ndcg_score

import shadowmetric as sm

KS = (1, 3, 40)


@st.composite
def related(draw):
    rows = draw(st.integers(2, 14))
    return draw(exact_rows(rows) if draw(st.booleans()) else random_rows(rows)), *draw(relations(rows))


def assert_scores(scores, ranks, graded):
    wanted = {f"recall_at_{k}": [reference.recall_at(r, k) for r in ranks] for k in KS}
    wanted |= {"r_precision": [reference.r_precision(r) for r in ranks]}
    wanted |= {"map_at_r": [reference.map_at_r(r) for r in ranks]}
    wanted |= {"reciprocal_rank": [reference.reciprocal_rank(r) for r in ranks]}
    wanted |= {f"ndcg_at_{k}": [reference.ndcg_at(*items, k) for items in graded] for k in KS}
    for name, values in wanted.items():
        values = torch.tensor(values, dtype=torch.float64)
        torch.testing.assert_close(scores.per_query[name], values, rtol=0, atol=1e-6, equal_nan=True, msg=name)
    assert scores.setting.lone_queries == sum(not r for r in ranks)


def graded_items(plain, found):
    return [
        ([s for s, _ in items], [max(plain.grade(mine, other), 0.0) for _, other in items])
        for mine, items in zip(plain.rows, found, strict=True)
    ]


@given(related(), st.sampled_from([1, 2**26]))
def test_leave_one_out_equals_the_loops(batch, scratch):
    embeddings, relation, plain = batch
    scores = sm.evaluate(embeddings, relation, recall_at=KS, ndcg_at=KS, scratch_bytes=scratch, progress=False)
    found = reference.known_items(embeddings, plain)
    assert_scores(scores, reference.known_ranks(embeddings, plain), graded_items(plain, found))


@given(related(), st.integers(1, 13))
def test_query_and_gallery_equal_the_loops(batch, cut):
    embeddings, relation, plain = batch
    cut = min(cut, len(embeddings) - 1)
    (mine, my_plain), (theirs, their_plain) = parts(relation, plain, cut)
    query, gallery = embeddings[:cut], embeddings[cut:]
    scores = sm.evaluate(query, mine, gallery=gallery, gallery_labels=theirs, recall_at=KS, ndcg_at=KS, progress=False)
    found = reference.known_items(query, my_plain, gallery, their_plain)
    ranks = reference.known_ranks(query, my_plain, gallery, their_plain)
    assert_scores(scores, ranks, graded_items(my_plain, found))


@pytest.mark.parametrize("ties", [False, True])
def test_ndcg_is_that_of_scikit_learn(ties):
    """With a gallery, where no query is left out of it; ties count with the mean of their grades there too."""
    embeddings, _ = plain_batch(60, 6)
    if ties:
        embeddings = torch.eye(6, dtype=torch.float64)[torch.arange(60) * 7 % 6]
    relation, _ = both("sets", 60, 3)
    query, gallery = slice(0, 25), slice(25, 60)
    known = relation[query], relation[gallery]
    scores = sm.evaluate(
        embeddings[query],
        known[0],
        gallery=embeddings[gallery],
        gallery_labels=known[1],
        ndcg_at=(1, 5, 35),
        progress=False,
    )
    grades = known[0].grades(slice(None), known[1]).double().numpy()
    unit = torch.nn.functional.normalize(embeddings).numpy()
    there = ~np.isnan(scores.per_query["ndcg_at_5"].numpy())
    for k in (1, 5, 35):
        wanted = ndcg_score(grades[there], (unit[query] @ unit[gallery].T)[there], k=k)
        assert scores.ndcg_at[k] == pytest.approx(wanted, abs=1e-9)
    assert 0 < scores.figures()["ndcg_at_5"] < 1


def test_one_label_is_a_tree_of_one_level_and_has_an_ndcg_of_zeros_and_ones():
    embeddings, labels = plain_batch(40)
    plain = sm.evaluate(embeddings, labels, measures=("recall_at", "map_at_r", "ndcg_at"), progress=False)
    tree = sm.evaluate(embeddings, sm.LabelTree(labels[:, None]), progress=False)
    assert plain.figures() == {name: tree.figures()[name] for name in plain.figures()}
    assert "ndcg_at_10" not in sm.evaluate(embeddings, labels, progress=False).figures()


def test_a_sample_of_the_queries_has_the_values_of_the_whole():
    embeddings, (relation, _) = plain_batch(30, 6)[0], both("sets", 30, 9)
    whole = sm.evaluate(embeddings, relation, progress=False)
    some = sm.evaluate(embeddings, relation, queries=11, seed=3, progress=False)
    for name, values in some.per_query.items():
        torch.testing.assert_close(values, whole.per_query[name][some.query_rows], rtol=0, atol=0, equal_nan=True)
    assert some.hardest_queries(3)
    assert math.isclose(some.interval("ndcg_at_10").mean, some.ndcg_at[10])


@pytest.mark.parametrize("measure", ["silhouette", "accuracy", "nmi", "verification"])
def test_what_needs_classes_says_so(measure):
    embeddings, (relation, _) = plain_batch(12)[0], both("sets", 12, 1)
    with pytest.raises(ValueError, match=f"{measure} needs one label for each row"):
        sm.evaluate(embeddings, relation, measures=("recall_at", measure))
    with pytest.raises(ValueError, match="ndcg_at is 0"):
        sm.evaluate(embeddings, relation, ndcg_at=(0,))
