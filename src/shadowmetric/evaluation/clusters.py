"""k-means clusters of unit rows, seeded: what NMI and AMI compare with the classes.

Lloyd's iterations (1982) on Euclidean distance until no row changes its cluster, at most `iterations` times.
First centers are drawn with probability in proportion to the squared distance from the centers so far, as in
k-means++ (Arthur and Vassilvitskii, 2007), but in rounds that double their number: log2(k) passes over the
rows instead of k. A cluster that loses all its rows starts again at the row that is farthest from its center.

The same seed gives the same clusters, whatever multiplies or adds: rows are those of `ops/exact_rows`, multiples of
2^-24. Sums of them are exact in float64, means are rounded to multiples of 2^-24 as well, and so x.c - |c|^2 / 2, by
which a row chooses its center, is exact. Of equally near centers the first is taken, of equally far rows the first.
Another seed gives other clusters: read NMI to two digits, not to four.

Shared by the ranks of torch.distributed, each finds the nearest centers of its own part of the rows, which is nearly
all of the work. What it finds is joined, and everything else follows from that on every rank.

Memory: the scratch, the centers, and a few numbers for each row.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from shadowmetric.evaluation.sharing import Part
from shadowmetric.ops.exact_rows import GRID, ExactUnitRows
from shadowmetric.ops.rows import Rows
from shadowmetric.ops.similarity_blocks import Progress
from shadowmetric.ops.top_k import Neighbors, top_k


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
    rows = ExactUnitRows(embeddings, tail=1.0).make_whole(scratch_bytes)
    mine = rows if part.alone else ExactUnitRows(embeddings[part.rows], tail=1.0).make_whole(scratch_bytes)
    squares = _squares(rows, scratch_bytes)

    def nearest(centers: Tensor) -> tuple[Tensor, Tensor]:
        """Return the squared distance of each row to its nearest center, and which one that is."""
        neighbors = Neighbors(*(part.gather(values) for values in _nearest(mine, centers, scratch_bytes)))
        return squares - 2 * neighbors.similarity, neighbors.row

    centers = _first_centers(rows, min(clusters, len(rows)), seed, nearest)
    cluster = torch.full((len(rows),), -1, dtype=torch.int64, device=embeddings.device)
    for iteration in range(iterations):
        before, (distance, cluster) = cluster, nearest(centers)
        if torch.equal(before, cluster):
            break
        centers = _means(rows, cluster, distance, len(centers), scratch_bytes)
        if progress is not None:
            progress((iteration + 1) / iterations)
    return cluster


def _parts(rows: Rows, scratch_bytes: int) -> Iterator[tuple[slice, Tensor]]:
    """Yield all rows, some at a time."""
    some = max(1, scratch_bytes // (32 * rows.width))
    for start in range(0, len(rows), some):
        stop = min(start + some, len(rows))
        yield slice(start, stop), rows.load(start, stop)


def _squares(rows: Rows, scratch_bytes: int) -> Tensor:
    """Return the squared length of each row, exactly: 1 but for what the grid makes of it, 0 for zero rows."""
    squares = torch.empty(len(rows), dtype=torch.float64, device=rows.source.device)
    for here, part in _parts(rows, scratch_bytes):
        squares[here] = part[:, :-1].square().sum(1)
    return squares


def _nearest(rows: Rows, centers: Tensor, scratch_bytes: int) -> Neighbors:
    """Return for each row x.c - |c|^2 / 2 of its nearest center, the larger the nearer, and which one that is."""
    beside = Rows(centers, tail=(centers.square().sum(1) / -2,))
    neighbors = top_k(rows, beside, 1, scratch_bytes=scratch_bytes)
    return Neighbors(neighbors.similarity[:, 0], neighbors.row[:, 0])


def _first_centers(rows: Rows, clusters: int, seed: int, nearest: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    indices = torch.randint(len(rows), (1,), generator=generator)
    distance = torch.full((len(rows),), torch.inf, dtype=torch.float64)
    while len(indices) < clusters:
        newest = indices[len(indices) // 2 :]  # a round doubles them, so the newest are the second half
        distance = torch.minimum(distance, nearest(_some(rows, newest))[0].cpu())
        wait = torch.empty_like(distance).exponential_(generator=generator)
        urgency = distance / wait  # the largest are a draw without replacement, in proportion to the distance
        urgency[indices] = -1.0
        most_urgent = torch.argsort(urgency, descending=True, stable=True)
        indices = torch.cat([indices, most_urgent[: min(len(indices), clusters - len(indices))]])
    return _some(rows, indices)


def _some(rows: Rows, indices: Tensor) -> Tensor:
    """Return a few rows, without the appended one."""
    return torch.cat([rows.load(int(row), int(row) + 1)[:, :-1].clone() for row in indices])


def _means(rows: Rows, cluster: Tensor, distance: Tensor, clusters: int, scratch_bytes: int) -> Tensor:
    """Return the mean row of each cluster, on the grid; the farthest rows for clusters without any."""
    sums = torch.zeros(clusters, rows.width, dtype=torch.float64, device=cluster.device)
    for here, part in _parts(rows, scratch_bytes):
        sums.index_add_(0, cluster[here], part)
    count = sums[:, -1:]
    centers = (sums / count.clamp_min(1.0))[:, :-1].mul(GRID).round_().div_(GRID)
    empty = (count[:, 0] == 0).nonzero()[:, 0]
    if len(empty):
        centers[empty] = _some(rows, torch.argsort(distance, descending=True, stable=True)[: len(empty)])
    return centers
