"""The k most similar references of each row, over blocks.

Naive program: (left @ right.T).topk(k). Equal similarities go to the smaller reference number, which
`torch.topk` alone does not promise. Which similarities are equal is a matter of the product: make it exact
(`ops/exact_rows.py`), or measure again what it proposes (`runtime/exact_cosines.py`).

Memory: the scratch, and k numbers and row numbers for each row.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from shadowmetric.ops.largest import largest_places
from shadowmetric.ops.rows import Rows
from shadowmetric.ops.similarity_blocks import SCRATCH_BYTES, Progress, similarity_blocks

WIDTH = 16384  # columns at once: many enough that finding the best of a block costs little beside making it


class Neighbors(NamedTuple):
    """For each row its most similar references, best first."""

    similarity: Tensor  # (rows, k); -inf where there is none
    row: Tensor  # (rows, k) int64, of the references


def top_k(
    left: Rows,
    right: Rows,
    k: int,
    *,
    own: Tensor | None = None,
    scratch_bytes: int = SCRATCH_BYTES,
    progress: Progress | None = None,
) -> Neighbors:
    """Return the k references with the largest product for each row; k at most the number of references.

    own: for each row a reference that is left out, or -1.
    """
    k = min(k, len(right))
    device = left.source.device
    similarity = torch.full((len(left), k), float("-inf"), dtype=left.dtype, device=device)
    index = torch.zeros((len(left), k), dtype=torch.int64, device=device)
    width = min(len(right), max(WIDTH, 8 * k))
    for top, bottom, first, _, values in similarity_blocks(
        left, right, scratch_bytes=scratch_bytes, width=width, temporaries=2.0, progress=progress
    ):
        if own is not None:
            write_at(values, own[top:bottom] - first, float("-inf"))
        columns = largest_places(values, k)
        joined = torch.cat([similarity[top:bottom], values.gather(1, columns)], 1)
        numbers = torch.cat([index[top:bottom], columns + first], 1)
        best = torch.argsort(joined, dim=1, descending=True, stable=True)[:, :k]  # smaller numbers stay in front
        similarity[top:bottom], index[top:bottom] = joined.gather(1, best), numbers.gather(1, best)
    return Neighbors(similarity, index)


def write_at(values: Tensor, column: Tensor, value: float) -> None:
    """Write a value at one column of each row, where there is such a column."""
    inside = ((column >= 0) & (column < values.shape[1])).nonzero()[:, 0]
    values[inside, column[inside]] = value
