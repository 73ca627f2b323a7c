"""The k most similar references of each row, over blocks.

Naive program: (left @ right.T).topk(k). Equal similarities go to the smaller reference number, which
`torch.topk` alone does not promise.

Memory: the scratch, and k numbers and row numbers for each row.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.ops.rows import Rows
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES, similarity_blocks


class Neighbours(NamedTuple):
    """For each row its most similar references, best first."""

    similarity: Tensor  # (rows, k)
    row: Tensor  # (rows, k) int64, of the references


def top_k(left: Rows, right: Rows, k: int, *, scratch_bytes: int = SCRATCH_BYTES) -> Neighbours:
    """Return the k references with the largest product for each row; k at most the number of references."""
    k = min(k, len(right))
    device = left.source.device
    similarity = torch.full((len(left), k), float("-inf"), dtype=left.dtype, device=device)
    index = torch.full((len(left), k), len(right), dtype=torch.int64, device=device)
    for top, bottom, first, last, values in similarity_blocks(
        left, right, scratch_bytes=scratch_bytes, temporaries=8.0
    ):
        found = _block_top(values, min(k, last - first))
        joined = torch.cat([similarity[top:bottom], values.gather(1, found)], 1)
        numbers = torch.cat([index[top:bottom], found + first], 1)
        best = torch.argsort(joined, dim=1, descending=True, stable=True)[:, :k]  # earlier blocks come first
        similarity[top:bottom], index[top:bottom] = joined.gather(1, best), numbers.gather(1, best)
    return Neighbours(similarity, index)


def _block_top(values: Tensor, k: int) -> Tensor:
    """Return the columns of the k largest entries of each row, best first, ties to the smaller column."""
    least = values.topk(k, dim=1).values[:, -1:]  # the k-th largest: what is above it is in, ties with it compete
    above, level = values > least, values == least
    room = k - above.sum(1, keepdim=True)
    chosen = above | (level & (level.cumsum(1, dtype=torch.int32) <= room))
    columns = chosen.nonzero()[:, 1].view(len(values), k)  # ascending in each row
    order = torch.argsort(values.gather(1, columns), dim=1, descending=True, stable=True)
    return columns.gather(1, order)
