"""Normalized and adjusted mutual information of two partitions: true classes and clusters.

With n items, classes of sizes a, clusters of sizes b, and n_ab items in both (natural logarithms throughout):

    MI  = sum over a, b of n_ab / n * log(n * n_ab / (a * b))            H = -sum of a / n * log(a / n)
    NMI = MI / mean(H(classes), H(clusters))
    AMI = (MI - E[MI]) / (mean(H(classes), H(clusters)) - E[MI])         Vinh, Epps and Bailey, JMLR 2010

E[MI] is the mean over all ways to deal the items out to classes and clusters of these sizes: n_ab is then
hypergeometric. NMI grows with the number of clusters even for random ones; AMI is then about 0, and may be negative.

Both are scikit-learn's scores with the arithmetic mean. Equal partitions, whatever their names, have exactly 1,
two empty ones and two of a single part included; one single part against several has 0.

E[MI] depends on the two sizes only, so it is summed over the distinct pairs of sizes: n items have at most sqrt(2n)
distinct sizes. The hypergeometric weights come from the ratios of neighbors and are divided by their sum: differences
of lgamma(n), numbers in the millions, would lose digits.

Memory: a few numbers for each item and about 8 MB. No (classes, clusters) matrix. Everything is done on the CPU.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.checks import check_labels

TAIL = 60.0  # weights outside the window sum to less than 2 exp(-TAIL), 2e-26
TERMS_AT_ONCE = 2**17


class Contingency(NamedTuple):
    """How many items each class and cluster share; only pairs that share some, by label, then by cluster."""

    label: Tensor  # (pairs,) int64
    cluster: Tensor  # (pairs,) int64
    items: Tensor  # (pairs,) int64: how many they share, above 0
    class_size: Tensor  # (pairs,) int64: of the pair's class
    cluster_size: Tensor  # (pairs,) int64: of the pair's cluster
    class_sizes: Tensor  # (classes,) int64, by label
    cluster_sizes: Tensor  # (clusters,) int64, by cluster


def contingency(labels: Tensor, clusters: Tensor) -> Contingency:
    """Count the items of each (class, cluster) pair that occurs; both are (items,) integers of any value."""
    if isinstance(labels, Tensor) and labels.ndim != 1:
        raise ValueError(f"labels has shape {tuple(labels.shape)}; give one label for each item, as one dimension.")
    labels = check_labels(labels, labels)
    clusters = check_labels(clusters, labels, "clusters", "labels")
    label, class_number, class_sizes = torch.unique(labels.cpu(), return_inverse=True, return_counts=True)
    cluster, cluster_number, cluster_sizes = torch.unique(clusters.cpu(), return_inverse=True, return_counts=True)
    pair, shared = torch.unique(class_number * len(cluster) + cluster_number, return_counts=True)
    first, second = pair // max(len(cluster), 1), pair % max(len(cluster), 1)
    return Contingency(
        label[first],
        cluster[second],
        shared,
        class_sizes[first],
        cluster_sizes[second],
        class_sizes,
        cluster_sizes,
    )


def nmi(labels: Tensor, clusters: Tensor) -> float:
    """Return the mutual information divided by the mean of the two entropies: 0 to 1."""
    shared = contingency(labels, clusters)
    if _equal_partitions(shared):
        return 1.0
    return mutual_information(shared) / _mean_entropy(shared)


def ami(labels: Tensor, clusters: Tensor) -> float:
    """Return the mutual information adjusted for chance: 1 for equal partitions, about 0 for random ones."""
    shared = contingency(labels, clusters)
    if _equal_partitions(shared):
        return 1.0
    if min(len(shared.class_sizes), len(shared.cluster_sizes)) == 1:
        return 0.0
    expected = expected_mutual_information(shared.class_sizes, shared.cluster_sizes)
    return (mutual_information(shared) - expected) / (_mean_entropy(shared) - expected)


def mutual_information(shared: Contingency) -> float:
    """Return the mutual information of the two partitions; rounding never makes it negative."""
    items = shared.items.sum().double()
    lift = shared.items * items / (shared.class_size.double() * shared.cluster_size)
    return max(0.0, float((shared.items / items * lift.log()).sum()))


def expected_mutual_information(class_sizes: Tensor, cluster_sizes: Tensor) -> float:
    """Return the mean mutual information of all pairs of partitions with these sizes."""
    items = int(class_sizes.sum())
    few, many = sorted([class_sizes.unique(return_counts=True), cluster_sizes.unique(return_counts=True)], key=_length)
    total = 0.0
    for size, times in zip(*(column.tolist() for column in few), strict=True):
        low, width = _window(size, many[0].double(), items)
        side = max(1, TERMS_AT_ONCE // int(width.max()))
        for sizes, others, start, widths in zip(*(part.split(side) for part in (*many, low, width)), strict=True):
            terms = _expected_terms(size, sizes.double(), start, int(widths.max()), items)
            total += times * float(terms @ others.double())
    return total


def _expected_terms(size: int, sizes: Tensor, start: Tensor, width: int, items: int) -> Tensor:
    """Return for each other size the sum over n of P(n) * n / items * log(items * n / (size * other size)).

    P(n+1) / P(n) = (a - n) (b - n) / ((n + 1) (items - a - b + n + 1)): zero past the largest possible n.
    """
    sizes = sizes[:, None]
    n = start[:, None] + torch.arange(width, dtype=torch.float64)  # (sizes, width)
    before = n[:, :-1]
    chances = (size - before).clamp_min(0) * (sizes - before).clamp_min(0)
    ratio = chances / ((before + 1) * (items - size - sizes + before + 1))
    weight = torch.nn.functional.pad(ratio.log().cumsum(1), (1, 0)).softmax(dim=1)
    return (weight * torch.xlogy(n, n * items / (size * sizes))).sum(dim=1) / items


def _window(size: int, sizes: Tensor, items: int) -> tuple[Tensor, Tensor]:
    """Return the first n and the number of n that hold all but exp(-TAIL) of the weight on either side.

    Bernstein's bounds for a sum of mean m, which hold for the hypergeometric distribution too (Hoeffding 1963):
    P(n <= m - t) <= exp(-t^2 / 2m) and P(n >= m + t) <= exp(-t^2 / (2m + 2t/3)).
    """
    mean = size * sizes / items
    below = mean - (2 * TAIL * mean).sqrt()
    above = mean + TAIL / 3 + (TAIL**2 / 9 + 2 * TAIL * mean).sqrt()
    low = torch.maximum(below.floor(), size + sizes - items).clamp_min(0)
    high = torch.minimum(above.ceil(), sizes).clamp_max(size)
    return low, high - low + 1


def _mean_entropy(shared: Contingency) -> float:
    return (_entropy(shared.class_sizes) + _entropy(shared.cluster_sizes)) / 2


def _entropy(sizes: Tensor) -> float:
    share = sizes / sizes.sum().double()
    return -float(torch.xlogy(share, share).sum())


def _equal_partitions(shared: Contingency) -> bool:
    return len(shared.items) == len(shared.class_sizes) == len(shared.cluster_sizes)


def _length(columns: tuple[Tensor, Tensor]) -> int:
    return len(columns[0])
