"""How far embeddings have collapsed: variance, effective rank, dead dimensions, mean cosine. All on unit rows.

    variance         of each dimension, over the rows (population variance)
    effective_rank   exp(- sum of p ln p), p = singular values of the centered rows / their sum (Roy & Vetterli 2007)
    dead_share       the share of dimensions whose standard deviation is below 1e-3 of the largest one
    mean_cosine      of two different rows; NaN if there is one row only

Rows that are all one point, no variance above 1e-12, span nothing: effective rank 0, every dimension dead. Zero rows
have no direction and stay zero.

Naive program: center the unit rows and call torch.linalg.svdvals. Here the rows pass by twice, a block at a time, in
float64: first for their mean, then for the covariance around it. (Moments around 0 would lose a variance below
1e-16, and that is where collapse ends.) Singular values are the roots of the covariance's eigenvalues; what rounding
alone can make of a zero counts as zero.

Memory: the scratch, and two (dim, dim) matrices in float64. Rows are summed in groups of the same size whatever the
scratch, so that no figure depends on it; at least one group is held at a time.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from shadowmetric.checks import check_rows, check_scratch
from shadowmetric.ops.rows import Rows
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES

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


def collapse(embeddings: Tensor, *, scratch_bytes: int = SCRATCH_BYTES) -> Collapse:
    """Return the spread of the rows."""
    check_rows(embeddings)
    check_scratch(scratch_bytes)
    dtype = torch.float32 if embeddings.device.type == "mps" else torch.float64
    count, dim = embeddings.shape
    rows = Rows(embeddings, dtype=dtype)
    total, squares = torch.zeros(2, dim, dtype=dtype, device=embeddings.device)
    for unit in _unit_groups(rows, scratch_bytes):
        total += unit.sum(0)
        squares += unit.square().sum(0)
    mean = total / count
    scatter = torch.zeros(dim, dim, dtype=dtype, device=embeddings.device)
    for unit in _unit_groups(rows, scratch_bytes):
        unit -= mean
        scatter.addmm_(unit.T, unit)
    covariance = scatter.cpu().double() / count
    variance = covariance.diagonal().clone()
    is_point = variance.max().item() <= ONE_POINT
    deviation = variance.sqrt()
    dead = torch.ones(dim) if is_point else (deviation < DEAD * deviation.max()).double()
    return Collapse(
        variance=variance,
        mean_variance=variance.mean().item(),
        effective_rank=0.0 if is_point else _effective_rank(covariance),
        dead_share=dead.mean().item(),
        mean_cosine=_mean_cosine(total.cpu().double(), squares.cpu().double(), count),
    )


def _unit_groups(rows: Rows, scratch_bytes: int) -> Iterator[Tensor]:
    """Yield the unit rows, a group at a time; each is the caller's own."""
    fitting = scratch_bytes // (4 * rows.width * rows.dtype.itemsize)  # loaded, divided, squared
    height = max(GROUP, fitting // GROUP * GROUP)
    for start in range(0, len(rows), height):
        for group in rows.load(start, min(start + height, len(rows))).split(GROUP):
            yield group / torch.linalg.vector_norm(group, dim=1, keepdim=True).clamp_min_(1e-300)


def _effective_rank(covariance: Tensor) -> float:
    """Return exp(entropy) of the singular values."""
    squares = torch.linalg.eigvalsh(covariance)
    rounding = squares[-1] * len(covariance) * torch.finfo(torch.float64).eps
    singular = squares[squares > rounding].sqrt()
    share = singular / singular.sum()
    return math.exp(-(share * share.log()).sum().item())


def _mean_cosine(total: Tensor, squares: Tensor, count: int) -> float:
    """Return the mean cosine of two different rows, (|sum of rows|^2 - sum of |row|^2) / (count (count - 1))."""
    if count == 1:
        return math.nan
    return (total.square().sum() - squares.sum()).item() / (count * (count - 1))
