"""Ours and the peers find the same figures, and both those of the plain loops."""

import math

import pytest
import reference
import torch

from benchmarks.evaluation import contenders as evaluation_contenders
from benchmarks.evaluation.contenders import CONTENDERS
from benchmarks.evaluation.plan import FIGURES, RECALL_AT, EvaluationJob
from benchmarks.evaluation.worker import inputs

TINY = 12 * 40  # bytes of the peers' results: two queries to a block


def found(job, embeddings, labels):
    """Return the figures and the stages in the order of their beginning."""
    begun = []
    return CONTENDERS[job.contender](job, embeddings, labels, lambda stage, _: begun.append(stage)), begun


def both(embeddings, labels, queries=None):
    """Return the figures of ours and of the peers."""
    rows, dim = embeddings.shape
    classes = len(labels.unique())
    jobs = (EvaluationJob(name, rows, dim, classes, queries=queries) for name in ("ours", "peers"))
    return [found(job, embeddings, labels)[0] for job in jobs]


@pytest.mark.parametrize("classes", [2, 10, 75, 150])
@pytest.mark.parametrize("queries", [None, 100])
def test_ours_and_peers_agree(classes, queries):
    ours, peers = both(*inputs(EvaluationJob("ours", 300, 16, classes, seed=classes)), queries)
    assert set(ours) == set(peers) == set(FIGURES)
    assert ours == pytest.approx(peers, abs=1e-6)
    assert 0 < peers["map_at_r"] < 1


@pytest.mark.parametrize("queries", [None, 25])
def test_blocks_of_any_size_find_the_same(monkeypatch, queries):
    embeddings, labels = inputs(EvaluationJob("peers", 61, 8, 4))
    _, whole = both(embeddings, labels, queries)
    monkeypatch.setattr(evaluation_contenders, "RESULT_BYTES", TINY)
    _, blocks = both(embeddings, labels, queries)
    assert blocks == pytest.approx(whole, abs=1e-12)


def test_peers_are_the_plain_loops_on_classes_of_unlike_sizes_with_a_lone_query():
    generator = torch.Generator().manual_seed(5)
    labels = torch.tensor([7] * 9 + [-3] * 4 + [0] * 2 + [11])[torch.randperm(16, generator=generator)]
    embeddings = torch.randn(16, 5, generator=generator)
    ranks = [each for each in reference.relevant_ranks(embeddings, labels) if each]
    assert len(ranks) == 15
    _, peers = both(embeddings, labels)
    assert peers["map_at_r"] == pytest.approx(math.fsum(map(reference.map_at_r, ranks)) / 15, abs=1e-12)
    for k in RECALL_AT:
        assert peers[f"recall_at_{k}"] == sum(reference.recall_at(each, k) for each in ranks) / 15
    silhouette = reference.silhouette_values(embeddings, labels)
    assert peers["silhouette"] == pytest.approx(math.fsum(silhouette) / 16, abs=1e-6)


def test_a_query_that_its_duplicates_crowd_out_is_left_out_all_the_same():
    embeddings = torch.cat([torch.ones(40, 3), -torch.ones(2, 3)])
    job = EvaluationJob("peers", 42, 3, 5, "recall-map")
    figures, _ = found(job, embeddings, torch.cat([torch.arange(40) % 4, torch.tensor([4, 4])]))
    assert all(0 <= figure <= 1 for figure in figures.values())


@pytest.mark.parametrize("contender", ["ours", "peers"])
@pytest.mark.parametrize(
    ("measures", "stages", "names"),
    [
        ("recall-map", ["retrieval"], FIGURES[:-1]),
        ("silhouette", ["silhouette"], FIGURES[-1:]),
        ("recall-map silhouette", ["retrieval", "silhouette"], FIGURES),
    ],
)
def test_only_what_was_asked_for_is_measured(contender, measures, stages, names):
    job = EvaluationJob(contender, 40, 6, 4, measures)
    figures, begun = found(job, *inputs(job))
    assert list(dict.fromkeys(begun)) == stages
    assert set(figures) == set(names)
