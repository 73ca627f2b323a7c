"""k-means clusters of unit rows, seeded: what NMI and AMI compare with the classes.

Lloyd's iterations (1982) on Euclidean distance until no row changes its cluster, at most `iterations` times.
First centres are drawn with probability in proportion to the squared distance from the centres so far, as in
k-means++ (Arthur and Vassilvitskii, 2007), but in rounds that double their number: log2(k) passes over the
rows instead of k. A cluster that loses all its rows starts again at the row that is farthest from its centre.

The same seed gives the same clusters. Another seed gives others: read NMI to two digits, not to four.

Shared by the ranks of torch.distributed, each finds the nearest centres of its own part of the rows, which is nearly
all of the work. What it finds is joined, and everything else follows from that on every rank.

Memory: the scratch, the centres, and a few numbers for each row.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from shadowmetric.evaluation.sharing import Part
from shadowmetric.ops.row_lengths import row_lengths_of
from shadowmetric.ops.rows import Rows
from shadowmetric.ops.similarity_blocks import Progress
from shadowmetric.ops.top_k import Neighbours, top_k


def k_means(
    embeddings: Tensor,
    clusters: int,
    *,
    seed: int = 0,
    iterations: int = 50,
    scratch_bytes: int,
    progress: Progress | None = None,
    shared: bool = False,
) -> Tensor:
    """Return the cluster of each row, 0 to clusters - 1: (rows,) int64.

    shared: every rank of torch.distributed gives the same rows, and gets the same clusters.
    """
    part = Part.of(len(embeddings), shared)
    rows = _rows_with_a_one(embeddings).made_whole(scratch_bytes)
    mine = rows if part.alone else _rows_with_a_one(embeddings[part.rows]).made_whole(scratch_bytes)

    def nearest(centres: Tensor) -> Neighbours:
        return Neighbours(*(part.joined(found) for found in _nearest(mine, centres, scratch_bytes)))

    centres = _first_centres(rows, min(clusters, len(rows)), seed, nearest)
    cluster = torch.full((len(rows),), -1, dtype=torch.int64, device=embeddings.device)
    for iteration in range(iterations):
        before, (nearness, cluster) = cluster, nearest(centres)
        if torch.equal(before, cluster):
            break
        centres = _means(rows, cluster, nearness, len(centres), scratch_bytes)
        if progress is not None:
            progress((iteration + 1) / iterations)
    return cluster


def _rows_with_a_one(embeddings: Tensor) -> Rows:
    length = row_lengths_of(embeddings, torch.float64)
    tail = (torch.ones_like(length),)
    return Rows(embeddings, divisor=length.clamp_min(1e-300), tail=tail, dtype=torch.float64)


def _nearest(rows: Rows, centres: Tensor, scratch_bytes: int) -> Neighbours:
    """Return for each row x.c - |c|^2 / 2 of its nearest centre, the larger the nearer, and which one that is."""
    beside = Rows(centres, tail=(centres.square().sum(1) / -2,))
    found = top_k(rows, beside, 1, scratch_bytes=scratch_bytes)
    return Neighbours(found.similarity[:, 0], found.row[:, 0])


def _first_centres(rows: Rows, clusters: int, seed: int, nearest: Callable[[Tensor], Neighbours]) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(len(rows), (1,), generator=generator)
    distance = torch.full((len(rows),), torch.inf, dtype=torch.float64)
    while len(chosen) < clusters:
        newest = chosen[len(chosen) // 2 :]  # a round doubles them, so the newest are the second half
        nearness = nearest(_some(rows, newest)).similarity.cpu()
        distance = torch.minimum(distance, (1 - 2 * nearness).clamp_min(0.0))
        wait = torch.empty_like(distance).exponential_(generator=generator)
        urgency = distance / wait  # the largest are a draw without replacement, in proportion to the distance
        urgency[chosen] = -1.0
        chosen = torch.cat([chosen, urgency.topk(min(len(chosen), clusters - len(chosen))).indices])
    return _some(rows, chosen)


def _some(rows: Rows, chosen: Tensor) -> Tensor:
    """Return a few rows, without the appended one."""
    return torch.cat([rows.load(int(row), int(row) + 1)[:, :-1].clone() for row in chosen])


def _means(rows: Rows, cluster: Tensor, nearness: Tensor, clusters: int, scratch_bytes: int) -> Tensor:
    """Return the mean row of each cluster; the farthest rows for clusters without any."""
    sums = torch.zeros(clusters, rows.width, dtype=torch.float64, device=cluster.device)
    some = max(1, scratch_bytes // (32 * rows.width))
    for start in range(0, len(rows), some):
        stop = min(start + some, len(rows))
        sums.index_add_(0, cluster[start:stop], rows.load(start, stop))
    count = sums[:, -1:]
    centres = (sums / count.clamp_min(1.0))[:, :-1]
    empty = (count[:, 0] == 0).nonzero()[:, 0]
    if len(empty):
        centres[empty] = _some(rows, nearness.topk(len(empty), largest=False).indices)
    return centres
