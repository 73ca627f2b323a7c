"""How far embeddings have collapsed: variance, effective rank, dead dimensions, mean cosine. All on unit rows.

    variance         of each dimension, over the rows (population variance)
    effective_rank   exp(- sum of p ln p), p = singular values of the centered rows / their sum (Roy & Vetterli 2007)
    dead_share       the share of dimensions whose standard deviation is below 1e-3 of the largest one
    mean_cosine      of two different rows; NaN if there is one row only

Rows that are all one point, no variance above 1e-12, span nothing: effective rank 0, every dimension dead. Zero rows
have no direction and stay zero.

Naive program: center the unit rows and call torch.linalg.svdvals. Here the rows pass by twice, a block at a time, in
float64: first for their mean, then for the moments around it. (Moments around 0 would lose a variance below
1e-16, and that is where collapse ends.) Singular values are the roots of the eigenvalues of the smaller one of two
matrices, which share all that are not zero:

    up to as many dimensions as rows    rows^T rows, (dim, dim)
    more dimensions than rows           rows rows^T, (rows, rows)

What rounding alone can make of a zero counts as zero.

Cost: rows x dim x m for the matrix and m^3 for its eigenvalues, with m the smaller of rows and dim: no more than a few
times what retrieval costs, however many dimensions there are. Memory: the scratch, and two (m, m) matrices in float64.
Rows are summed in groups of the same size whatever the scratch, so that no figure depends on it; at least two groups
are held at a time.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from shadowmetric.checks import check_rows, check_scratch
from shadowmetric.ops.rows import Rows
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES
from shadowmetric.progress import Progress

GROUP = 256  # rows whose sums are made together
DEAD = 1e-3  # of the largest standard deviation
ONE_POINT = 1e-12  # the largest variance of rows that are all the same but for rounding


@dataclass(frozen=True)
class Collapse:
    """How the unit rows fill their space."""

    variance: Tensor  # (dim,) float64, on the CPU
    mean_variance: float
    effective_rank: float
    dead_share: float
    mean_cosine: float


def collapse(embeddings: Tensor, *, scratch_bytes: int = SCRATCH_BYTES, progress: Progress | None = None) -> Collapse:
    """Return the spread of the rows."""
    check_rows(embeddings)
    check_scratch(scratch_bytes)
    dtype = torch.float32 if embeddings.device.type == "mps" else torch.float64
    count, dim = embeddings.shape
    rows = Rows(embeddings, dtype=dtype)
    total, squares = torch.zeros(2, dim, dtype=dtype, device=embeddings.device)
    for _, unit in _unit_groups(rows, scratch_bytes):
        total += unit.sum(0)
        squares += unit.square().sum(0)
    variance, moments = _moments(rows, total / count, scratch_bytes, progress or (lambda _: None))
    is_point = variance.max().item() <= ONE_POINT
    deviation = variance.sqrt()
    dead = torch.ones(dim) if is_point else (deviation < DEAD * deviation.max()).double()
    return Collapse(
        variance=variance,
        mean_variance=variance.mean().item(),
        effective_rank=0.0 if is_point else _effective_rank(moments),
        dead_share=dead.mean().item(),
        mean_cosine=_mean_cosine(total.cpu().double(), squares.cpu().double(), count),
    )


def collapse_costs(count: int, dim: int) -> tuple[float, float]:
    """Return about how long the matrix of so many rows takes, and its eigenvalues, in nanoseconds of a core."""
    smaller = float(min(count, dim))
    return 0.05 * count * dim * smaller, 0.04 * smaller**3


def collapse_bytes(count: int, dim: int) -> int:
    """Return the bytes that the measure takes of so many rows, beside the scratch: the matrix, and LAPACK's copy."""
    return 2 * torch.float64.itemsize * min(count, dim) ** 2


def _moments(rows: Rows, mean: Tensor, scratch_bytes: int, progress: Progress) -> tuple[Tensor, Tensor]:
    """Return the variance of each dimension, and a matrix with the eigenvalues of the covariance that are not zero.

    Of the matrix the lower triangle is made, and the diagonal.
    """
    count, dim = len(rows), rows.width
    matrix, *eigenvalues = collapse_costs(count, dim)
    share = matrix / (matrix + sum(eigenvalues))
    side, others = min(count, dim), Rows(rows.source, dtype=rows.dtype)
    variance, moments = mean.new_zeros(dim), mean.new_zeros(side, side)
    for start, unit in _unit_groups(rows, scratch_bytes):
        unit -= mean
        variance += unit.square().sum(0)
        if dim <= count:
            moments.addmm_(unit.T, unit)
        else:
            for below, other in _unit_groups(others, scratch_bytes, start):
                other -= mean
                torch.mm(other, unit.T, out=moments[below : below + len(other), start : start + len(unit)])
        progress(share * (start + len(unit)) / count)
    return variance.cpu().double() / count, moments.cpu().double().div_(count)


def _unit_groups(rows: Rows, scratch_bytes: int, first: int = 0) -> Iterator[tuple[int, Tensor]]:
    """Yield the unit rows from `first` on, a group at a time, and where it starts; each is the caller's own."""
    fitting = scratch_bytes // (8 * rows.width * rows.dtype.itemsize)  # loaded, divided, squared; of two such loops
    height = max(GROUP, fitting // GROUP * GROUP)
    for start in range(first, len(rows), height):
        groups = rows.load(start, min(start + height, len(rows))).split(GROUP)
        for place, group in zip(range(start, len(rows), GROUP), groups, strict=False):
            yield place, group / torch.linalg.vector_norm(group, dim=1, keepdim=True).clamp_min_(1e-300)


def _effective_rank(moments: Tensor) -> float:
    """Return exp(entropy) of the singular values."""
    squares = torch.linalg.eigvalsh(moments)
    rounding = squares[-1] * len(moments) * torch.finfo(torch.float64).eps
    singular = squares[squares > rounding].sqrt()
    share = singular / singular.sum()
    return math.exp(-(share * share.log()).sum().item())


def _mean_cosine(total: Tensor, squares: Tensor, count: int) -> float:
    """Return the mean cosine of two different rows, (|sum of rows|^2 - sum of |row|^2) / (count (count - 1))."""
    if count == 1:
        return math.nan
    return (total.square().sum() - squares.sum()).item() / (count * (count - 1))
