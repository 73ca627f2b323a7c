"""k-means: seeded, complete, no worse than scikit-learn's, and as good as told on easy data."""

import pytest
import torch
from batches import plain_batch

from shadowmetric.evaluation.clusters import k_means
from shadowmetric.evaluation.mutual_information import nmi


def clustered(rows=400, classes=8, spread=0.1, dim=16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % classes
    centers = torch.randn(classes, dim, generator=generator)
    return centers[labels] + spread * torch.randn(rows, dim, generator=generator), labels


def inertia(embeddings, cluster):
    unit = torch.nn.functional.normalize(embeddings.double())
    return sum(float((unit[cluster == c] - unit[cluster == c].mean(0)).square().sum()) for c in cluster.unique())


def test_classes_that_lie_apart_are_found():
    embeddings, labels = clustered()
    assert nmi(labels, k_means(embeddings, 8, scratch_bytes=2**22)) > 0.9


def test_the_seed_decides_and_nothing_else():
    embeddings, _ = clustered(spread=2.0)
    first = k_means(embeddings, 8, seed=1, scratch_bytes=2**22)
    assert torch.equal(first, k_means(embeddings, 8, seed=1, scratch_bytes=2**22))
    assert torch.equal(first, k_means(embeddings, 8, seed=1, scratch_bytes=4096))
    assert torch.equal(first, k_means(3 * embeddings, 8, seed=1, scratch_bytes=2**22))  # unit rows
    assert not torch.equal(first, k_means(embeddings, 8, seed=2, scratch_bytes=2**22))


def test_about_as_tight_as_scikit_learn():
    cluster = pytest.importorskip("sklearn.cluster")
    embeddings, _ = clustered(spread=1.0, rows=600, classes=12)
    unit = torch.nn.functional.normalize(embeddings.double()).numpy()
    theirs = torch.tensor(cluster.KMeans(12, n_init=1, random_state=0).fit(unit).labels_)
    ours = min(inertia(embeddings, k_means(embeddings, 12, seed=seed, scratch_bytes=2**22)) for seed in range(3))
    assert ours < 1.05 * inertia(embeddings, theirs)


def test_every_row_is_nearest_to_the_mean_of_its_cluster_when_it_has_settled():
    embeddings, _ = clustered(rows=200, spread=0.5)
    cluster = k_means(embeddings, 8, iterations=200, scratch_bytes=2**22)
    unit = torch.nn.functional.normalize(embeddings.double())
    used = cluster.unique()
    means = torch.stack([unit[cluster == c].mean(0) for c in used])
    assert torch.equal(used[torch.cdist(unit, means).argmin(1)], cluster)


@pytest.mark.parametrize("clusters", [1, 2, 30, 99])
def test_any_number_of_clusters_and_duplicates(clusters):
    embeddings, _ = plain_batch(30)
    found = k_means(embeddings, clusters, scratch_bytes=2**20)
    assert found.shape == (30,)
    assert 0 <= int(found.min()) <= int(found.max()) < min(clusters, 30)
    if clusters >= 30:
        assert len(found.unique()) == 30
    equal = k_means(torch.ones(30, 4), clusters, scratch_bytes=2**20)
    assert len(equal.unique()) == 1
    assert k_means(torch.zeros(3, 2), 2, scratch_bytes=1).shape == (3,)
